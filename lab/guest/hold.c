/*
 * hold: makes and holds one piece of memory inside a lab guest.
 *
 *   hold KIND SIZE [WORD...]
 *
 * The program forks: the child makes the memory and keeps it until it is killed; the parent
 * returns 0 once the memory is there and 1 if it could not be had, so that a script needs no
 * polling.
 *
 * KIND
 *   anon      private anonymous memory, every page written
 *   reserve   private anonymous memory, never touched (counts against the commit limit)
 *   shm       a System V segment, every page written
 *   hugetlb   private 2 MiB huge pages, every page written
 *   fragment  private memory of which one page in EVERY is spliced into pipes (which the kernel
 *             cannot move) and the rest given back; never huge pages, of which one pinned
 *             page would hold the whole
 *   strewn    private memory of which one page in EVERY is given back: free pages one by one, between
 *             pages that the kernel can move; never huge pages
 *   touch     private anonymous memory, a byte of every page written over and over for ever
 *   messages  System V message queues filled with 4 kB messages: slab that nothing can reclaim
 *
 * SIZE is a number of bytes, or one with the suffix K, M or G.
 *
 * WORD
 *   lock           mlock the memory
 *   limit=SIZE     set RLIMIT_MEMLOCK (soft and hard) to SIZE first; limit=unlimited
 *   uid=N          become user and group N first
 *   node=N         allocate on NUMA node N only
 *   thp, nothp     MADV_HUGEPAGE, MADV_NOHUGEPAGE before writing
 *   late-thp       MADV_NOHUGEPAGE before writing, MADV_HUGEPAGE after: work for khugepaged
 *   every=N        for `fragment` and `strewn`: one page in N (default 24)
 *   over=SECONDS   write it little by little, over so long
 *   workers=N      N more processes that map the same memory, as those that a server forks: each page
 *                  that the kernel moves then has N mappings more to be changed
 *   once           give the memory back as soon as it is there; the parent waits for that too
 *   name=TEXT      the process name that /proc/PID/status shows
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define PIPE_PAGES 256
#define POLICY_BIND 2
#define BURST_PAGES 8
#define MESSAGE_BYTES 4000 /* with the kernel's 48-byte header this fills a kmalloc-4k object */
#define QUEUE_BYTES (16UL << 20)

struct wish {
	const char *kind;
	size_t size;
	size_t every;
	int workers;
	int over_s;
	int lock;
	int once;
	int advice;
	int late;
};

static void die(const char *what)
{
	fprintf(stderr, "hold: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static size_t bytes(const char *text)
{
	char *end;
	size_t n = strtoull(text, &end, 10);

	switch (*end) {
	case 'G': return n << 30;
	case 'M': return n << 20;
	case 'K': return n << 10;
	default: return n;
	}
}

static void bind_node(int node)
{
	unsigned long mask = 1UL << node;

	if (syscall(SYS_set_mempolicy, POLICY_BIND, &mask, sizeof mask * 8))
		die("set_mempolicy");
}

static void limit_memlock(const char *text)
{
	rlim_t n = strcmp(text, "unlimited") ? bytes(text) : RLIM_INFINITY;
	struct rlimit limit = { n, n };

	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		die("setrlimit");
}

static void become(int id)
{
	if (setgroups(0, NULL) || setgid(id) || setuid(id))
		die("setuid");
}

static void read_word(struct wish *wish, const char *word)
{
	if (!strcmp(word, "lock")) wish->lock = 1;
	else if (!strcmp(word, "once")) wish->once = 1;
	else if (!strcmp(word, "thp")) wish->advice = MADV_HUGEPAGE;
	else if (!strcmp(word, "nothp")) wish->advice = MADV_NOHUGEPAGE;
	else if (!strcmp(word, "late-thp")) wish->advice = MADV_NOHUGEPAGE, wish->late = 1;
	else if (!strncmp(word, "every=", 6)) wish->every = bytes(word + 6);
	else if (!strncmp(word, "over=", 5)) wish->over_s = atoi(word + 5);
	else if (!strncmp(word, "workers=", 8)) wish->workers = atoi(word + 8);
	else if (!strncmp(word, "limit=", 6)) limit_memlock(word + 6);
	else if (!strncmp(word, "uid=", 4)) become(atoi(word + 4));
	else if (!strncmp(word, "node=", 5)) bind_node(atoi(word + 5));
	else if (!strncmp(word, "name=", 5)) prctl(PR_SET_NAME, word + 5, 0, 0, 0);
	else {
		fprintf(stderr, "hold: unknown word %s\n", word);
		_exit(2);
	}
}

static char *map(const struct wish *wish, int flags)
{
	char *p = mmap(NULL, wish->size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	if (wish->advice && madvise(p, wish->size, wish->advice))
		die("madvise");
	return p;
}

/* Each page gets words of its own, so that no page is like another or all zeros. */
static void write_pages(char *p, size_t size, int over_s)
{
	useconds_t pause_us = over_s * 1e6 * BURST_PAGES * PAGE / size;

	for (size_t at = 0; at < size; at += PAGE) {
		*(volatile size_t *)(p + at) = at + 1;
		if (pause_us && at / PAGE % BURST_PAGES == 0)
			usleep(pause_us);
	}
}

static char *shm_segment(const struct wish *wish)
{
	int id = shmget(IPC_PRIVATE, wish->size, IPC_CREAT | 0600);
	char *p;

	if (id < 0)
		die("shmget");
	p = shmat(id, NULL, 0);
	if (p == (char *)-1)
		die("shmat");
	if (wish->once && shmctl(id, IPC_RMID, NULL))
		die("shmctl");
	return p;
}

static void splice_pages(const struct wish *wish, char *p)
{
	size_t used = PIPE_PAGES;
	int ends[2];

	for (size_t at = 0; at < wish->size; at += wish->every * PAGE) {
		struct iovec page = { p + at, PAGE };

		if (used == PIPE_PAGES) {
			if (pipe(ends))
				die("pipe");
			if (fcntl(ends[1], F_SETPIPE_SZ, PIPE_PAGES * PAGE) < 0)
				die("F_SETPIPE_SZ");
			used = 0;
		}
		if (vmsplice(ends[1], &page, 1, 0) != PAGE)
			die("vmsplice");
		used++;
	}
	munmap(p, wish->size);
}

static void give_pages_back(const struct wish *wish, char *p)
{
	for (size_t at = 0; at < wish->size; at += wish->every * PAGE) {
		if (madvise(p + at, PAGE, MADV_DONTNEED))
			die("madvise");
	}
}

static void send_messages(size_t size)
{
	static struct { long type; char text[MESSAGE_BYTES]; } message = { .type = 1 };
	struct msqid_ds queue;
	size_t room = 0;
	int id = -1;

	for (size_t sent = 0; sent < size; sent += PAGE, room -= MESSAGE_BYTES) {
		if (room < MESSAGE_BYTES) {
			id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
			if (id < 0 || msgctl(id, IPC_STAT, &queue))
				die("msgget");
			room = queue.msg_qbytes = QUEUE_BYTES;
			if (msgctl(id, IPC_SET, &queue))
				die("msgctl");
		}
		if (msgsnd(id, &message, MESSAGE_BYTES, IPC_NOWAIT))
			die("msgsnd");
	}
}

static void fork_workers(int count)
{
	for (int i = 0; i < count; i++) {
		pid_t worker = fork();

		if (worker < 0)
			die("fork");
		while (worker == 0)
			pause();
	}
}

static void make(struct wish *wish, int ready)
{
	char *p = NULL;

	if (!strcmp(wish->kind, "messages")) send_messages(wish->size);
	else if (!strcmp(wish->kind, "shm")) p = shm_segment(wish);
	else if (!strcmp(wish->kind, "hugetlb")) p = map(wish, MAP_HUGETLB);
	else p = map(wish, 0);

	if (wish->lock && mlock(p, wish->size))
		die("mlock");
	if (!strcmp(wish->kind, "touch")) {
		write(ready, "", 1);
		for (;;)
			write_pages(p, wish->size, 0);
	}
	if (p && strcmp(wish->kind, "reserve"))
		write_pages(p, wish->size, wish->over_s);
	if (wish->late && madvise(p, wish->size, MADV_HUGEPAGE))
		die("madvise");
	if (!strcmp(wish->kind, "fragment"))
		splice_pages(wish, p);
	if (!strcmp(wish->kind, "strewn"))
		give_pages_back(wish, p);
	fork_workers(wish->workers);
	write(ready, "", 1);
	if (wish->once)
		_exit(0);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	struct rlimit files = { 1 << 16, 1 << 16 };
	struct wish wish = { .every = 24 };
	int ends[2];
	char done;

	if (argc < 3) {
		fprintf(stderr, "usage: hold KIND SIZE [WORD...]\n");
		return 2;
	}
	wish.kind = argv[1];
	if (!strcmp(wish.kind, "fragment") || !strcmp(wish.kind, "strewn"))
		wish.advice = MADV_NOHUGEPAGE;
	wish.size = bytes(argv[2]);
	if (pipe(ends))
		die("pipe");
	if (fork() == 0) {
		close(ends[0]);
		setsid();
		setrlimit(RLIMIT_NOFILE, &files);
		for (int i = 3; i < argc; i++)
			read_word(&wish, argv[i]);
		make(&wish, ends[1]);
	}
	close(ends[1]);
	if (read(ends[0], &done, 1) != 1)
		return 1;
	for (int i = 3; i < argc; i++) {
		if (!strcmp(argv[i], "once"))
			wait(NULL);
	}
	return 0;
}

/*
 * occupy: makes and holds memory that no process's size shows.
 *
 *   occupy KIND SIZE
 *   occupy mapped|locked FILE
 *
 * The program forks: the child makes SIZE bytes and keeps them until it is killed; the parent returns 0 once
 * they are there, and 1 if they could not be had.
 *
 * KIND
 *   pipes     pipes that are filled and not read
 *   sockets   Unix sockets whose messages are not received
 *   maps      BPF arrays, which the kernel keeps in vmalloc memory
 *   memfd     memory files without a mapping
 *   secret    secret memory (memfd_secret)
 *   orphan    a System V segment that nobody has attached; the child ends
 *   inodes    empty files of a tmpfs at /mnt/inodes: dentries and inodes that are in use
 *   tables    page tables of a mapping whose every second page table has a page in it
 *   zeroes    page tables of a mapping that was only read
 *   threads   kernel stacks of threads that sleep
 *   lazy      anonymous memory freed by MADV_FREE, which is not freed before it is needed
 *   pinned    anonymous memory registered with io_uring
 *   reserved  2 MiB huge pages that are mapped and not touched
 *   mapped    the page cache of FILE, mapped and read over and over
 *   locked    the page cache of FILE, locked
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096UL
#define MIB (1UL << 20)
#define TABLE_BYTES (2 * MIB) /* what one page table maps */
#define STACK_BYTES (16UL << 10)
#define INODE_BYTES 1000UL /* an inode of a tmpfs with its dentry, about */
#define PIN_BYTES (64 * MIB)

static void die(const char *what)
{
	fprintf(stderr, "occupy: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static size_t bytes(const char *text)
{
	char *end;
	size_t n = strtoull(text, &end, 10);

	return *end == 'M' ? n << 20 : *end == 'K' ? n << 10 : n;
}

static char *map(size_t size, int flags)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static void write_pages(char *p, size_t size)
{
	for (size_t at = 0; at < size; at += PAGE)
		*(volatile size_t *)(p + at) = at + 1;
}

static void fill_pipes(size_t size)
{
	static char piece[64 << 10];

	for (size_t made = 0; made < size; made += MIB) {
		int ends[2];

		if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, MIB) < 0)
			die("pipe");
		for (size_t at = 0; at < MIB; at += sizeof piece)
			if (write(ends[1], piece, sizeof piece) != sizeof piece)
				die("write to a pipe");
	}
}

static void fill_sockets(size_t size)
{
	static char piece[32 << 10];
	int room = 4 * MIB;

	for (size_t made = 0; made < size;) {
		ssize_t sent;
		int ends[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) ||
		    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room))
			die("socketpair");
		while ((sent = write(ends[0], piece, sizeof piece)) > 0)
			made += sent;
	}
}

static void make_maps(size_t size)
{
	for (size_t made = 0; made < size; made += 16 * MIB) {
		union bpf_attr attr = {
			.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = PAGE, .max_entries = 16 * MIB / PAGE,
		};

		if (syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr) < 0)
			die("bpf");
	}
}

static void write_file(int file, size_t size)
{
	static char piece[64 << 10];

	for (size_t at = 0; at < size; at += sizeof piece)
		if (write(file, piece, sizeof piece) != sizeof piece)
			die("write");
}

static void make_secret(size_t size)
{
	int file = syscall(SYS_memfd_secret, 0);
	char *p;

	if (file < 0 || ftruncate(file, size))
		die("memfd_secret");
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (p == MAP_FAILED)
		die("mmap");
	write_pages(p, size);
}

static void make_orphan(size_t size)
{
	int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
	char *p = id < 0 ? (char *)-1 : shmat(id, NULL, 0);

	if (p == (char *)-1)
		die("shmget");
	write_pages(p, size);
}

static void make_inodes(size_t size)
{
	char path[64];

	for (size_t i = 0; i < size / INODE_BYTES; i++) {
		int file;

		snprintf(path, sizeof path, "/mnt/inodes/%zu", i);
		file = open(path, O_CREAT | O_WRONLY, 0600);
		if (file < 0)
			die(path);
		close(file);
	}
}

/* Every second one: two that are full in a row could become one huge page. */
static void make_tables(size_t size)
{
	size_t range = size / PAGE * TABLE_BYTES;
	char *p = map(range, MAP_NORESERVE);

	if (madvise(p, range, MADV_NOHUGEPAGE))
		die("madvise");
	for (size_t at = 0; at < range; at += 2 * TABLE_BYTES)
		p[at] = 1;
}

static void make_zeroes(size_t size)
{
	size_t range = size / PAGE * TABLE_BYTES;
	char *p = map(range, MAP_NORESERVE);
	volatile char sum = 0;

	if (madvise(p, range, MADV_NOHUGEPAGE))
		die("madvise");
	for (size_t at = 0; at < range; at += TABLE_BYTES)
		sum += p[at];
}

static void *sleep_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void make_threads(size_t size)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32 << 10);
	for (size_t i = 0; i < size / STACK_BYTES; i++)
		if ((errno = pthread_create(&thread, &attr, sleep_for_ever, NULL)))
			die("pthread_create");
}

static void make_pinned(size_t size)
{
	struct io_uring_params params = { 0 };
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &all);
	for (size_t made = 0; made < size; made += PIN_BYTES) {
		int ring = syscall(SYS_io_uring_setup, 1, &params);
		struct iovec buffer = { map(PIN_BYTES, 0), PIN_BYTES };

		write_pages(buffer.iov_base, PIN_BYTES);
		if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1))
			die("io_uring");
	}
}

static char *map_file(const char *path, size_t *size)
{
	int file = open(path, O_RDONLY);
	struct stat stat;
	char *p;

	if (file < 0 || fstat(file, &stat))
		die(path);
	*size = stat.st_size;
	p = mmap(NULL, *size, PROT_READ, MAP_SHARED, file, 0);
	if (p == MAP_FAILED)
		die(path);
	return p;
}

static void read_pages(const char *p, size_t size)
{
	for (size_t at = 0; at < size; at += PAGE)
		(void)*(volatile const char *)(p + at);
}

static void read_for_ever(const char *path, int ready)
{
	size_t size;
	char *p = map_file(path, &size);

	read_pages(p, size);
	if (write(ready, "", 1) != 1)
		die("write");
	for (;; usleep(20000))
		read_pages(p, size);
}

static void lock_file(const char *path)
{
	size_t size;
	char *p = map_file(path, &size);

	if (mlock(p, size))
		die("mlock");
}

static int make(const char *kind, size_t size)
{
	char *p;

	if (!strcmp(kind, "pipes")) fill_pipes(size);
	else if (!strcmp(kind, "sockets")) fill_sockets(size);
	else if (!strcmp(kind, "maps")) make_maps(size);
	else if (!strcmp(kind, "memfd")) write_file(memfd_create("occupy", 0), size);
	else if (!strcmp(kind, "secret")) make_secret(size);
	else if (!strcmp(kind, "orphan")) make_orphan(size);
	else if (!strcmp(kind, "inodes")) make_inodes(size);
	else if (!strcmp(kind, "tables")) make_tables(size);
	else if (!strcmp(kind, "zeroes")) make_zeroes(size);
	else if (!strcmp(kind, "threads")) make_threads(size);
	else if (!strcmp(kind, "pinned")) make_pinned(size);
	else if (!strcmp(kind, "reserved")) map(size, MAP_HUGETLB);
	else if (!strcmp(kind, "lazy")) {
		write_pages(p = map(size, 0), size);
		if (madvise(p, size, MADV_FREE))
			die("madvise");
	} else return -1;
	return 0;
}

int main(int argc, char **argv)
{
	struct rlimit files = { 1 << 16, 1 << 16 };
	int ends[2];
	char done;

	if (argc != 3 || pipe(ends))
		return 2;
	if (fork() == 0) {
		close(ends[0]);
		setsid();
		setrlimit(RLIMIT_NOFILE, &files);
		if (!strcmp(argv[1], "mapped"))
			read_for_ever(argv[2], ends[1]);
		if (!strcmp(argv[1], "locked"))
			lock_file(argv[2]);
		else if (make(argv[1], bytes(argv[2])))
			_exit(2);
		if (write(ends[1], "", 1) != 1)
			_exit(1);
		while (strcmp(argv[1], "orphan"))
			pause();
		_exit(0);
	}
	close(ends[1]);
	return read(ends[0], &done, 1) == 1 ? 0 : 1;
}

/*
 * serve: a small HTTP server whose requests use what a condition may take away.
 *
 *   serve PORT FILE FILE_MIB ANON_MIB
 *
 * GET /work/READ/TOUCH/SYNC/SPIN: reads READ random pages of FILE, writes a byte to TOUCH of its pages of anonymous
 * memory, appends a record to FILE.log and syncs it SYNC times, maps and unmaps a page, and computes for SPIN
 * microseconds. GET /sleep/MS answers that late. GET /lock/MS/TIMES/HOW has a thread map and lock (0) or populate (1)
 * as much as takes so long, and GET /grow/MIB has one allocate so much; both answer at once. GET /fork/MIB/MS maps so
 * much, and has every later request of /work start processes for so long, until /fork/0/0. GET /child/MIB starts a
 * process that maps so much; the next request of /work kills it and waits for its end, as all others then do.
 * GET /touch/MS/HOW has every later request of /work map, touch (0) or populate (1) and unmap memory for so long, until
 * /touch/0/0. GET /fail/1 makes all requests fail until /fail/0.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L
#define THREADS 6
#define QUEUE 64

static int listener, file, record;
static long file_pages, anon_pages;
static char *anon;
static volatile int failing;
static volatile long fork_ms, touch_ms;
static volatile int populates;
static pthread_mutex_t restart = PTHREAD_MUTEX_INITIALIZER;
static pid_t child;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t random_below(uint64_t *state, uint64_t bound)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % bound;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void spin(long us)
{
	struct timespec t;
	double until;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	until = t.tv_sec * 1e6 + t.tv_nsec / 1e3 + us;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	while (t.tv_sec * 1e6 + t.tv_nsec / 1e3 < until);
}

static void end_child(void);

/* Takes new memory and returns it again and again. */
static void touch_for(long ms)
{
	const size_t size = 16 << 20;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (populates ? MAP_POPULATE : 0);

	for (double until = now_ms() + ms; now_ms() < until;) {
		char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);

		if (map == MAP_FAILED)
			break;
		for (size_t at = 0; at < size; at += PAGE)
			map[at] = 1;
		munmap(map, size);
	}
}

static void work(uint64_t *seed, long reads, long touches, long syncs, long spin_us)
{
	char page[PAGE], *map;

	end_child();
	for (long i = 0; i < reads && file_pages; i++)
		if (pread(file, page, PAGE, random_below(seed, file_pages) * PAGE) < 0)
			perror("pread");
	for (long i = 0; i < touches && anon_pages; i++)
		anon[random_below(seed, anon_pages) * PAGE] = i;
	for (long i = 0; i < syncs; i++)
		if (pwrite(record, page, PAGE, random_below(seed, 256) * PAGE) < 0 || fsync(record))
			perror("sync");
	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map != MAP_FAILED) {
		*map = 1;
		munmap(map, PAGE);
	}
	spin(spin_us);
	touch_for(touch_ms);
	for (double until = now_ms() + fork_ms; now_ms() < until;)
		if (!fork())
			_exit(0);
}

/* A mapping whose pages are all the zero page: it has page tables, and takes no other memory. */
static char *map_zero_pages(size_t size)
{
	char *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map != MAP_FAILED)
		madvise(map, size, MADV_NOHUGEPAGE);
	return map;
}

enum how { LOCK, POPULATE };

static double lock(size_t size, enum how how)
{
	double from = now_ms(), took;
	char *map = map_zero_pages(size);

	if (map == MAP_FAILED)
		return perror("mmap"), 1;
	if (how == LOCK ? mlock(map, size) : madvise(map, size, MADV_POPULATE_READ))
		perror("lock");
	took = now_ms() - from;
	munmap(map, size);
	return took;
}

struct piece {
	long amount, times;
	enum how how;
};

/* How much takes so many milliseconds is measured with a part of it. */
static void *lock_for(void *argument)
{
	const size_t part = 16 << 20;
	struct piece piece = *(struct piece *)argument;
	double took;

	free(argument);
	took = lock(part, piece.how);
	for (long i = 0; i < piece.times; i++)
		lock((size_t)(piece.amount / took + 1) * part, piece.how);
	return NULL;
}

static void *grow(void *argument)
{
	struct piece piece = *(struct piece *)argument;
	size_t size = piece.amount << 20;
	char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	free(argument);
	if (map != MAP_FAILED)
		memset(map, 1, size);
	return NULL;
}

static void beside(void *(*run)(void *), long amount, long times, enum how how)
{
	struct piece *piece = malloc(sizeof *piece);
	pthread_t thread;

	*piece = (struct piece){ amount, times, how };
	if (!pthread_create(&thread, NULL, run, piece))
		pthread_detach(thread);
}

/* Only a mapping that has a page of its own has its page tables copied. */
static void fork_from_now_on(long mib, long ms)
{
	static char *map;
	static size_t size;

	if (map)
		munmap(map, size);
	map = NULL;
	size = mib << 20;
	if (mib && (map = map_zero_pages(size)) != MAP_FAILED) {
		mprotect(map, PAGE, PROT_READ | PROT_WRITE);
		for (size_t at = 0; at < size; at += PAGE)
			(void)*(volatile char *)(map + at);
		*map = 1;
	}
	fork_ms = ms;
}

/* A process with many pages of few megabytes: one file, mapped over and over. */
static void fill_child(long mib, int ready)
{
	const size_t size = 16 << 20;
	int fd = memfd_create("child", 0);

	/* To become large must not hold up others. */
	setpriority(PRIO_PROCESS, 0, 19);
	if (fd < 0 || ftruncate(fd, size))
		die("memfd");
	for (long i = 0; i < mib; i += size >> 20)
		if (mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0) == MAP_FAILED)
			die("mmap");
	setpriority(PRIO_PROCESS, 0, 0);
	if (write(ready, "", 1) == 1)
		pause();
	_exit(0);
}

static void start_child(long mib)
{
	char byte;
	int ready[2];
	pid_t pid;

	if (pipe(ready))
		return perror("pipe");
	pid = fork();
	if (pid == 0)
		fill_child(mib, ready[1]);
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		perror("child");
	close(ready[0]);
	pthread_mutex_lock(&restart);
	child = pid;
	pthread_mutex_unlock(&restart);
}

/* SIGCHLD is ignored: it waits all the same, and then there is no such child. */
static void end_child(void)
{
	pthread_mutex_lock(&restart);
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		child = 0;
	}
	pthread_mutex_unlock(&restart);
}

static int answer(uint64_t *seed, const char *request)
{
	long a = 0, b = 0, c = 0, d = 0;

	if (sscanf(request, "GET /fail/%ld", &a) == 1)
		return failing = a, 1;
	if (failing)
		return 0;
	if (sscanf(request, "GET /work/%ld/%ld/%ld/%ld", &a, &b, &c, &d) == 4)
		work(seed, a, b, c, d);
	else if (sscanf(request, "GET /sleep/%ld", &a) == 1)
		usleep(a * 1000);
	else if (sscanf(request, "GET /lock/%ld/%ld/%ld", &a, &b, &c) >= 2)
		beside(lock_for, a, b, c);
	else if (sscanf(request, "GET /fork/%ld/%ld", &a, &b) == 2)
		fork_from_now_on(a, b);
	else if (sscanf(request, "GET /touch/%ld/%ld", &a, &b) == 2)
		populates = b, touch_ms = a;
	else if (sscanf(request, "GET /grow/%ld", &a) == 1)
		beside(grow, a, 1, LOCK);
	else if (sscanf(request, "GET /child/%ld", &a) == 1)
		start_child(a);
	return 1;
}

static void *serve(void *number)
{
	static const char good[] = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
	static const char bad[] = "HTTP/1.0 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
	uint64_t seed = 88172645463325252ULL + (uintptr_t)number;

	for (;;) {
		int client = accept(listener, NULL, NULL);
		char request[1024];
		ssize_t got;

		if (client < 0)
			continue;
		got = recv(client, request, sizeof request - 1, 0);
		if (got > 0) {
			request[got] = 0;
			if (answer(&seed, request))
				send(client, good, sizeof good - 1, MSG_NOSIGNAL);
			else
				send(client, bad, sizeof bad - 1, MSG_NOSIGNAL);
		}
		close(client);
	}
	return NULL;
}

static void fill_file(const char *path)
{
	char page[PAGE], log[512];

	file = open(path, O_RDWR | O_CREAT, 0644);
	snprintf(log, sizeof log, "%s.log", path);
	record = open(log, O_RDWR | O_CREAT, 0644);
	if (file < 0 || record < 0)
		die(path);
	memset(page, 'x', PAGE);
	for (long i = lseek(file, 0, SEEK_END) / PAGE; i < file_pages; i++)
		if (pwrite(file, page, PAGE, i * PAGE) != PAGE)
			die(path);
	posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
	/* What requests use is there before the first of them. */
	for (long i = 0; i < file_pages; i++)
		if (pread(file, page, PAGE, i * PAGE) < 0)
			die(path);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	pthread_t thread;
	int yes = 1;

	if (argc != 5) {
		fprintf(stderr, "usage: serve PORT FILE FILE_MIB ANON_MIB\n");
		return 2;
	}
	signal(SIGCHLD, SIG_IGN);
	file_pages = (atol(argv[3]) << 20) / PAGE;
	anon_pages = (atol(argv[4]) << 20) / PAGE;
	fill_file(argv[2]);
	anon = mmap(NULL, anon_pages * PAGE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (anon == MAP_FAILED)
		die("mmap");
	madvise(anon, anon_pages * PAGE, MADV_NOHUGEPAGE);
	for (long i = 0; i < anon_pages; i++)
		anon[i * PAGE] = 1;
	address.sin_port = htons(atoi(argv[1]));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, QUEUE))
		die("listen");
	for (uintptr_t i = 1; i < THREADS; i++)
		if (pthread_create(&thread, NULL, serve, (void *)i))
			die("pthread_create");
	serve(0);
	return 0;
}

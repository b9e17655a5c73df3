/*
 * busy: loads that harm nobody.
 *
 *   busy tree DIR FILES KIB       makes so many files of so many KiB, 100 in a directory
 *   busy random FILE              reads 8 KiB at random places of the file, for ever
 *   busy halves MIB               frees and uses every other half of huge pages, twice a second, for ever
 *   busy packed MIB               pages of which a quarter is random, swapped out; reads some now and then, for ever
 *   busy same MIB [CHANGED]       pages that are the same in each such process, for KSM; changes so many a second
 *   busy idle COMMAND...          runs the command with SCHED_IDLE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096UL
#define HUGE_PAGE (2UL << 20)
#define FILES_IN_DIR 100
#define READ_BYTES 8192
#define READS_IN_BURST 64

static void die(const char *what)
{
	fprintf(stderr, "busy: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* xorshift64: nothing compresses it. */
static uint64_t next_random(void)
{
	static uint64_t x = 88172645463325252ULL;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static size_t mib(const char *text)
{
	return strtoull(text, NULL, 10) << 20;
}

static char *map(size_t bytes)
{
	char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return (char *)(((uintptr_t)p + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
}

static void advise(char *p, size_t bytes, int advice)
{
	if (madvise(p, bytes, advice))
		die("madvise");
}

static void tree(const char *dir, int files, size_t bytes)
{
	char name[4096];
	char *text = malloc(bytes);

	if (!text)
		die("malloc");
	for (size_t at = 0; at < bytes; at++)
		text[at] = next_random();
	for (int i = 0; i < files; i++) {
		int fd;

		snprintf(name, sizeof name, "%s/%d", dir, i / FILES_IN_DIR);
		if (i % FILES_IN_DIR == 0 && mkdir(name, 0755))
			die(name);
		snprintf(name, sizeof name, "%s/%d/%d", dir, i / FILES_IN_DIR, i);
		fd = open(name, O_WRONLY | O_CREAT, 0644);
		if (fd < 0 || write(fd, text, bytes) != (ssize_t)bytes)
			die(name);
		close(fd);
	}
}

static void random_reads(const char *file)
{
	static char page[READ_BYTES];
	struct stat about;
	int fd = open(file, O_RDONLY);

	if (fd < 0 || fstat(fd, &about) || about.st_size < READ_BYTES)
		die(file);
	for (;;) {
		off_t at = next_random() % (about.st_size / READ_BYTES) * READ_BYTES;

		if (pread(fd, page, READ_BYTES, at) != READ_BYTES)
			die(file);
	}
}

static void halves(size_t bytes)
{
	char *p = map(bytes);

	advise(p, bytes, MADV_HUGEPAGE);
	for (;;) {
		for (size_t at = 0; at < bytes; at += PAGE)
			p[at] = 1;
		usleep(250000);
		for (size_t at = 0; at < bytes; at += HUGE_PAGE)
			advise(p + at, HUGE_PAGE / 2, MADV_DONTNEED);
		usleep(250000);
	}
}

static void packed(size_t bytes)
{
	char *p = map(bytes);
	volatile char sum = 0;

	for (size_t page = 0; page < bytes; page += PAGE) {
		for (size_t at = 0; at < PAGE / 4; at += sizeof(uint64_t))
			*(uint64_t *)(p + page + at) = next_random();
	}
	for (size_t at = 0; at < bytes; at += HUGE_PAGE)
		advise(p + at, HUGE_PAGE, MADV_PAGEOUT);
	for (;;) {
		for (int i = 0; i < READS_IN_BURST; i++)
			sum += p[next_random() % (bytes / PAGE) * PAGE];
		usleep(1000000);
	}
}

static void same(size_t bytes, int changed)
{
	char *p = map(bytes);

	advise(p, bytes, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < bytes; at += PAGE)
		memset(p + at, 1 + at / PAGE % 100, PAGE);
	advise(p, bytes, MADV_MERGEABLE);
	for (;;) {
		for (int i = 0; i < changed; i++)
			p[next_random() % (bytes / PAGE) * PAGE] = i;
		usleep(1000000);
	}
}

static void idle(char **command)
{
	struct sched_param none = { 0 };

	if (sched_setscheduler(0, SCHED_IDLE, &none))
		die("sched_setscheduler");
	execvp(*command, command);
	die(*command);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	if (!strcmp(what, "tree") && argc == 5)
		tree(argv[2], atoi(argv[3]), strtoull(argv[4], NULL, 10) << 10);
	else if (!strcmp(what, "random"))
		random_reads(argv[2]);
	else if (!strcmp(what, "halves"))
		halves(mib(argv[2]));
	else if (!strcmp(what, "packed"))
		packed(mib(argv[2]));
	else if (!strcmp(what, "same"))
		same(mib(argv[2]), argc > 3 ? atoi(argv[3]) : 0);
	else if (!strcmp(what, "idle"))
		idle(argv + 2);
	else {
		fprintf(stderr, "busy: unknown load %s\n", what);
		return 2;
	}
	return 0;
}

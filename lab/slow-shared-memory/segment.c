/*
 * segment: the small program of the field report. It creates a shared memory segment, locks it into
 * memory, and gives it back.
 *
 *   segment [-m] [-n TIMES] NAME SIZE_MIB
 *
 * prints `NAME SECONDS s`, the time from shmget(2) to the end of mlock(2), which creates the pages: the
 * calls of the database in the report. Of several times the shortest is printed, for whatever else runs
 * on the host can only make it longer. With -m the segment is shared anonymous memory from mmap(2), as
 * other databases have it.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *system_v(size_t size)
{
	int id = shmget(IPC_PRIVATE, size, IPC_CREAT | IPC_EXCL | 0600);
	void *p;

	if (id < 0)
		die("shmget");
	p = shmat(id, NULL, 0);
	/* Removed when it is detached, by whatever ends the program. */
	if (shmctl(id, IPC_RMID, NULL))
		die("shmctl");
	if (p == (void *)-1)
		die("shmat");
	return p;
}

static void *mapped(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static double create_and_lock(size_t size, int by_mmap)
{
	double from = now(), took;
	void *p = by_mmap ? mapped(size) : system_v(size);

	if (mlock(p, size))
		die("mlock");
	took = now() - from;
	if (by_mmap)
		munmap(p, size);
	else
		shmdt(p);
	return took;
}

int main(int argc, char **argv)
{
	double took, shortest = 0;
	int times = 1, by_mmap = 0, option;

	while ((option = getopt(argc, argv, "+mn:")) > 0) {
		if (option == 'm')
			by_mmap = 1;
		else
			times = option == 'n' ? atoi(optarg) : 0;
	}
	argv += optind;
	if (argc - optind != 2 || times < 1) {
		fprintf(stderr, "usage: segment [-m] [-n TIMES] NAME SIZE_MIB\n");
		return 2;
	}
	for (int i = 0; i < times; i++) {
		took = create_and_lock(strtoull(argv[1], NULL, 10) << 20, by_mmap);
		if (i == 0 || took < shortest)
			shortest = took;
	}
	printf("%s %.4f s\n", argv[0], shortest);
	return 0;
}

/*
 * segment: the small program of the field report. It creates a shared memory segment, locks it into
 * memory, and gives it back.
 *
 *   segment [-n TIMES] NAME SIZE_MIB
 *
 * prints `NAME SECONDS s`, the time from shmget(2) to the end of mlock(2), which creates the pages: the
 * calls of the database in the report. Of several times the shortest is printed, for whatever else runs
 * on the host can only make it longer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>

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

static double create_and_lock(size_t size)
{
	double from = now(), took;
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
	if (mlock(p, size))
		die("mlock");
	took = now() - from;
	shmdt(p);
	return took;
}

int main(int argc, char **argv)
{
	double took, shortest = 0;
	int times = 1;

	if (argc > 2 && !strcmp(argv[1], "-n")) {
		times = atoi(argv[2]);
		argc -= 2;
		argv += 2;
	}
	if (argc != 3 || times < 1) {
		fprintf(stderr, "usage: segment [-n TIMES] NAME SIZE_MIB\n");
		return 2;
	}
	for (int i = 0; i < times; i++) {
		took = create_and_lock(strtoull(argv[2], NULL, 10) << 20);
		if (i == 0 || took < shortest)
			shortest = took;
	}
	printf("%s %.4f s\n", argv[1], shortest);
	return 0;
}

/*
 * neighbour: a service that is sensitive to latency, beside a command.
 *
 *   neighbour SECONDS COMMAND...
 *
 * Every 20 ms the service takes 128 kB of new memory, reads 1 MB of its own, and gives the new memory back. It does
 * so for SECONDS, and then while the command runs. It prints
 *
 *   p99-before N ms, p99 N ms    the 99th percentile of the time from the beginning of a period to the end of its
 *                                work, before and beside the command
 *   p99-ratio N times            the second by the first
 *   took N s                     how long the command ran
 *
 * and returns what the command returns. The command's own output goes to standard error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define NEW_BYTES (128UL << 10)
#define OWN_BYTES (1UL << 20)
#define PERIOD_NS 20000000L
#define MOST 100000

static char own[OWN_BYTES];
static double late[MOST];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void work(void)
{
	volatile char sum = 0;
	char *p = mmap(NULL, NEW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(2);
	for (size_t i = 0; i < NEW_BYTES; i += PAGE)
		p[i] = 1;
	for (size_t i = 0; i < OWN_BYTES; i += PAGE)
		sum += own[i];
	munmap(p, NEW_BYTES);
}

/* A period: returns how long after its beginning the work was done. A period that was missed is not made up for. */
static double period(double *due)
{
	double left;

	*due += PERIOD_NS;
	if ((left = *due - now()) > 0) {
		struct timespec t = { (long)left / 1000000000L, (long)left % 1000000000L };

		nanosleep(&t, NULL);
	}
	work();
	left = now() - *due;
	if (left > PERIOD_NS)
		*due = now();
	return left / 1e6;
}

static int ascending(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double p99(int n)
{
	if (n == 0)
		return 0;
	qsort(late, n, sizeof *late, ascending);
	return late[(n - 1) * 99 / 100];
}

int main(int argc, char **argv)
{
	double due, from, before, beside;
	int n = 0, status;
	pid_t child;

	if (argc < 3)
		return 2;
	memset(own, 1, sizeof own);
	due = from = now();
	while (n < MOST && now() - from < atof(argv[1]) * 1e9)
		late[n++] = period(&due);
	before = p99(n);
	if ((child = fork()) == 0) {
		dup2(2, 1);
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(127);
	}
	n = 0;
	due = from = now();
	while (n < MOST && waitpid(child, &status, WNOHANG) == 0)
		late[n++] = period(&due);
	printf("took %.2f s\n", (now() - from) / 1e9);
	beside = p99(n);
	printf("p99-before %.2f ms\np99 %.2f ms\np99-ratio %.2f times\n", before, beside, beside / before);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

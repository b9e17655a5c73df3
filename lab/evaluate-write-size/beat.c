/*
 * beat: a heartbeat that needs memory, and what the kernel does meanwhile.
 *
 *   beat SIZE_MIB COMMAND...
 *
 * runs the command and beats ten times a second until it ends: each beat takes SIZE_MIB of fresh memory,
 * writes it and gives it back. Prints the longest beat, how many took over a second, how long the command
 * took, and by how much the page cache and the dirty pages have grown at most.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_US 100000
#define MISSED_S 1.0

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static long meminfo_mib(const char *name)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[256];
	long kib = 0;

	while (f && fgets(line, sizeof line, f)) {
		if (!strncmp(line, name, strlen(name)))
			kib = atol(line + strlen(name));
	}
	if (f)
		fclose(f);
	return kib / 1024;
}

static double beat(size_t size)
{
	double from = now();
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 0;
	for (size_t at = 0; at < size; at += 4096)
		p[at] = 1;
	munmap(p, size);
	return now() - from;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

int main(int argc, char **argv)
{
	double worst = 0, cached = 0, dirty = 0, from = now();
	long cached_before = meminfo_mib("Cached:");
	int missed = 0, status = 0;
	pid_t child;

	if (argc < 3)
		return 2;
	child = fork();
	if (child == 0) {
		dup2(2, 1);
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	while (waitpid(child, &status, WNOHANG) == 0) {
		double one = beat(atol(argv[1]) << 20);

		worst = larger(worst, one);
		missed += one > MISSED_S;
		cached = larger(cached, meminfo_mib("Cached:") - cached_before);
		dirty = larger(dirty, meminfo_mib("Dirty:"));
		usleep(PAUSE_US);
	}
	printf("worst-beat %.0f ms\n", worst * 1000);
	printf("missed-beats %d times\n", missed);
	printf("write %.2f s\n", now() - from);
	printf("page-cache %.0f MiB\n", cached);
	printf("dirty %.0f MiB\n", dirty);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

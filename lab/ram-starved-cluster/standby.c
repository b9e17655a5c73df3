/*
 * standby: the other server of the cluster. It listens to the heartbeat, and writes down what memory
 * is like meanwhile.
 *
 *   standby PHASE SECONDS PID SERIES
 *
 * Standard input brings the beats, a byte each. For SECONDS the program notes every LOOK_MS how long
 * ago the last beat was, what /proc/meminfo says, and how fast the process PID writes (/proc/PID/io).
 * Then it kills that process, adds what it has noted to the file SERIES as lines of PHASE, and prints,
 * for measure.sh: the longest time between two beats; the beats that were missed, where one is due
 * every DUE_MS; the extremes of memory; the throughput.
 *
 * Its memory is locked and there beforehand, and it writes nothing while it listens: what it tells of
 * may not happen to itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 100
#define DUE_MS 500
#define STOP_MS_MAX 20000
#define ROWS_MAX 1000
#define TEXT_MAX 8192
#define MIB_KB 1024.0

struct row {
	double at_s, beat_ms, written_mib;
	double dirty_mib, writeback_mib, cached_mib, free_mib;
};

struct listener {
	struct row rows[ROWS_MAX];
	int count;
	double beat_s, worst_ms;
	long missed;
};

static struct listener all;

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* What the open file says from its beginning. */
static const char *contents(int file)
{
	static char text[TEXT_MAX];
	ssize_t n = pread(file, text, TEXT_MAX - 1, 0);

	text[n > 0 ? n : 0] = 0;
	return text;
}

/* The number behind `name`; 0 where it is not. */
static double number(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? atof(at + strlen(name)) : 0;
}

static void look(struct row *row, int meminfo, int io)
{
	const char *text = contents(meminfo);

	row->at_s = now_s();
	row->beat_ms = (row->at_s - all.beat_s) * 1000;
	row->dirty_mib = number(text, "\nDirty:") / MIB_KB;
	row->writeback_mib = number(text, "\nWriteback:") / MIB_KB;
	row->cached_mib = number(text, "\nCached:") / MIB_KB;
	row->free_mib = number(text, "MemFree:") / MIB_KB;
	row->written_mib = number(contents(io), "wchar: ") / (1 << 20);
}

/* A beat has come, or there is no more time for one. */
static void beat(void)
{
	double gap_ms = (now_s() - all.beat_s) * 1000;

	all.beat_s = now_s();
	all.missed += gap_ms / DUE_MS;
	if (gap_ms > all.worst_ms)
		all.worst_ms = gap_ms;
}

static void listen_until(double end_s, int meminfo, int io)
{
	struct pollfd beats = { 0, POLLIN, 0 };
	double look_s = all.beat_s;
	char byte;

	while (now_s() < end_s && all.count < ROWS_MAX) {
		int wait_ms = (look_s - now_s()) * 1000;

		if (poll(&beats, 1, wait_ms > 0 ? wait_ms : 0) > 0) {
			if (read(0, &byte, 1) == 1)
				beat();
			else
				beats.fd = -1; /* the daemon is dead, and no beat will come */
			continue;
		}
		look(&all.rows[all.count++], meminfo, io);
		look_s += LOOK_MS / 1000.0;
	}
	beat();
}

/* The file is made no more, and nobody waits for memory when the results are written. */
static void stop(pid_t pid)
{
	struct pollfd process = { syscall(SYS_pidfd_open, pid, 0), POLLIN, 0 };

	close(0);
	kill(pid, SIGKILL);
	poll(&process, 1, STOP_MS_MAX);
}

static void save(const char *phase, const char *path)
{
	int is_new = access(path, F_OK);
	FILE *file = fopen(path, "a");

	if (!file)
		return;
	if (is_new)
		fprintf(file, "t_s,phase,table space MiB/s,dirty MiB,writeback MiB,cached MiB,"
			"free MiB,since the last beat ms\n");
	for (int i = 1; i < all.count; i++) {
		const struct row *row = &all.rows[i], *last = row - 1;
		double speed = (row->written_mib - last->written_mib) / (row->at_s - last->at_s);

		fprintf(file, "%.2f,%s,%.1f,%.1f,%.1f,%.1f,%.1f,%.0f\n", row->at_s, phase, speed,
			row->dirty_mib, row->writeback_mib, row->cached_mib, row->free_mib,
			row->beat_ms);
	}
	fclose(file);
}

static void say(void)
{
	const struct row *first = all.rows, *last = &all.rows[all.count - 1];
	double dirty = 0, least = first->free_mib;

	for (const struct row *row = first; row <= last; row++) {
		if (row->dirty_mib + row->writeback_mib > dirty)
			dirty = row->dirty_mib + row->writeback_mib;
		if (row->free_mib < least)
			least = row->free_mib;
	}
	printf("worst_gap %.0f ms\nmissed %ld beats\n", all.worst_ms, all.missed);
	printf("dirty_most %.0f MiB\nfree_least %.0f MiB\n", dirty, least);
	printf("throughput %.1f MiB/s\n",
	       (last->written_mib - first->written_mib) / (last->at_s - first->at_s));
}

int main(int argc, char **argv)
{
	int meminfo, io;
	char path[64];

	if (argc < 5) {
		fprintf(stderr, "usage: standby PHASE SECONDS PID SERIES\n");
		return 2;
	}
	snprintf(path, sizeof path, "/proc/%s/io", argv[3]);
	meminfo = open("/proc/meminfo", O_RDONLY);
	io = open(path, O_RDONLY);
	if (meminfo < 0 || io < 0 || mlockall(MCL_CURRENT)) {
		perror("standby");
		return 1;
	}
	all.beat_s = now_s();
	listen_until(all.beat_s + atof(argv[2]), meminfo, io);
	stop(atoi(argv[3]));
	save(argv[1], argv[4]);
	say();
	return 0;
}

/*
 * load: load for conditions and decoys, until it is killed.
 *
 *   load spin THREADS NICE         compute
 *   load write FILE MIB PAUSE_US   write MIB to FILE over and over, in pieces of 64 kB with a pause between
 *   load save FILE KIB PAUSE_US    write KIB to FILE and sync it, over and over
 *   load read FILE                 read FILE over and over, past the page cache's readahead
 *   load touch MIB                 write to so much memory
 *   load evict DIRECTORY           have the kernel forget the clean pages of the files below it
 *   load now                       print the milliseconds since 1970
 *   load realtime THREADS          compute in real time (SCHED_FIFO)
 *   load freeze|thaw DIRECTORY     freeze or thaw the file system of DIRECTORY
 *   load fill FILE                 leave no space on the file system of FILE
 *   load files PID 0|1             have PID open no more files, or as many as it may
 *   load tasks PID 0|1             have the user of PID start no more tasks from it, or as many as it may
 *   load in UID DIRECTORY... -- COMMAND...    run COMMAND as user and group UID in cgroups
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define PIECE (64 << 10)

static char piece[PIECE];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int open_file(const char *path)
{
	int file = open(path, O_RDWR | O_CREAT, 0644);

	if (file < 0)
		die(path);
	return file;
}

static void *spin(void *unused)
{
	(void)unused;
	for (volatile long i = 0;; i++)
		;
	return NULL;
}

static void run_spin(int threads, int nice)
{
	pthread_t thread;

	setpriority(PRIO_PROCESS, 0, nice);
	while (--threads > 0)
		pthread_create(&thread, NULL, spin, NULL);
	spin(NULL);
}

static void run_realtime(int threads)
{
	struct sched_param priority = { .sched_priority = 10 };

	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		die("sched_setscheduler");
	run_spin(threads, 0);
}

static void run_freeze(const char *path, unsigned long request)
{
	int directory = open(path, O_RDONLY);

	if (directory < 0 || ioctl(directory, request, 0))
		die(path);
}

static void run_fill(const char *path)
{
	struct statvfs space;
	int file = open_file(path);

	/* What the first part takes for its own extents is missing for the rest. */
	for (int try = 0; try < 8 && !fstatvfs(file, &space) && space.f_bfree; try++) {
		off_t at = lseek(file, 0, SEEK_END);
		unsigned long pieces = space.f_bfree > 64 ? space.f_bfree - space.f_bfree / 64 : space.f_bfree;

		if (posix_fallocate(file, at, pieces * space.f_frsize))
			break;
	}
	while (pwrite(file, piece, 4096, lseek(file, 0, SEEK_END)) > 0)
		;
}

/* The lowest number that PID has no file of. */
static rlim_t next_file(const char *pid)
{
	char path[64];
	rlim_t number = 0;

	do
		snprintf(path, sizeof path, "/proc/%s/fd/%lu", pid, (unsigned long)number++);
	while (!faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW));
	return number - 1;
}

static void run_limit(const char *pid, int resource, rlim_t soft, int lifted)
{
	struct rlimit limit;

	if (prlimit(atoi(pid), resource, NULL, &limit))
		die(pid);
	limit.rlim_cur = lifted ? limit.rlim_max : soft;
	if (prlimit(atoi(pid), resource, &limit, NULL))
		die(pid);
}

static void run_write(const char *path, long mib, long pause_us)
{
	int file = open_file(path);
	long pieces = (mib << 20) / PIECE;

	for (long i = 0;; i = (i + 1) % pieces) {
		if (pwrite(file, piece, PIECE, i * PIECE) < 0)
			die(path);
		if (pause_us)
			usleep(pause_us);
	}
}

static void run_save(const char *path, long kib, long pause_us)
{
	int file = open_file(path);

	for (;; usleep(pause_us)) {
		for (long at = 0; at < kib << 10; at += PIECE)
			if (pwrite(file, piece, PIECE, at) < 0)
				die(path);
		if (fsync(file))
			die(path);
	}
}

static void run_read(const char *path)
{
	int file = open_file(path);

	for (;;)
		if (read(file, piece, PIECE) <= 0)
			lseek(file, 0, SEEK_SET);
}

static void run_touch(long mib)
{
	char *memory = malloc(mib << 20);

	if (!memory)
		die("malloc");
	for (long at = 0; at < mib << 20; at += 4096)
		((volatile char *)memory)[at] = 1;
	pause();
}

static int evict(const char *path, const struct stat *stat, int kind, struct FTW *unused)
{
	int file;

	(void)stat, (void)unused;
	if (kind != FTW_F || (file = open(path, O_RDONLY)) < 0)
		return 0;
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	close(file);
	return 0;
}

static int run_in(char **argv)
{
	int uid = atoi(argv[0]);

	while (*++argv && strcmp(*argv, "--")) {
		char path[512], pid[16];
		int file, length = snprintf(pid, sizeof pid, "%d", getpid());

		snprintf(path, sizeof path, "%s/cgroup.procs", *argv);
		file = open(path, O_WRONLY);
		if (file < 0 || write(file, pid, length) < 0)
			die(path);
		close(file);
	}
	if (!*argv || !argv[1])
		return 2;
	if (uid && (setgroups(0, NULL) || setgid(uid) || setuid(uid)))
		die("setuid");
	execvp(argv[1], argv + 1);
	die(argv[1]);
	return 1;
}

int main(int argc, char **argv)
{
	struct timespec t;

	if (argc == 2 && !strcmp(argv[1], "now")) {
		clock_gettime(CLOCK_REALTIME, &t);
		printf("%lld\n", t.tv_sec * 1000LL + t.tv_nsec / 1000000);
		return 0;
	}
	if (argc == 4 && !strcmp(argv[1], "spin"))
		run_spin(atoi(argv[2]), atoi(argv[3]));
	else if (argc == 5 && !strcmp(argv[1], "write"))
		run_write(argv[2], atol(argv[3]), atol(argv[4]));
	else if (argc == 5 && !strcmp(argv[1], "save"))
		run_save(argv[2], atol(argv[3]), atol(argv[4]));
	else if (argc == 3 && !strcmp(argv[1], "realtime"))
		run_realtime(atoi(argv[2]));
	else if (argc == 3 && !strcmp(argv[1], "freeze"))
		run_freeze(argv[2], FIFREEZE);
	else if (argc == 3 && !strcmp(argv[1], "thaw"))
		run_freeze(argv[2], FITHAW);
	else if (argc == 3 && !strcmp(argv[1], "fill"))
		run_fill(argv[2]);
	else if (argc == 4 && !strcmp(argv[1], "files"))
		run_limit(argv[2], RLIMIT_NOFILE, next_file(argv[2]), atoi(argv[3]));
	else if (argc == 4 && !strcmp(argv[1], "tasks"))
		run_limit(argv[2], RLIMIT_NPROC, 1, atoi(argv[3]));
	else if (argc == 3 && !strcmp(argv[1], "read"))
		run_read(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "touch"))
		run_touch(atol(argv[2]));
	else if (argc == 3 && !strcmp(argv[1], "evict"))
		return nftw(argv[2], evict, 16, FTW_PHYS);
	else if (argc > 4 && !strcmp(argv[1], "in"))
		return run_in(argv + 2);
	else {
		fprintf(stderr, "load: wrong arguments\n");
		return 2;
	}
	return 0;
}

// Waits for memory, and at limits of cgroups and of the machine.
#include "waits.h"
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUP "/sys/fs/cgroup/limited"
#define OTHER "/sys/fs/cgroup/leaf"
#define MUCH (32 << 20)

static char *memory;
static int file;

// Joins a cgroup without limits.
static void join(void) {
	mkdir(GROUP, 0700);
	write_file(GROUP "/memory.high", "max");
	write_file(GROUP "/memory.max", "max");
	write_file(GROUP "/memory.swap.max", "max");
	write_file(GROUP "/cpu.max", "max 100000");
	write_file(GROUP "/cgroup.procs", "0");
	memory = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void touch_much(void) {
	for (size_t at = 0; at < MUCH; at += 4096) memory[at] = 1;
}

static void map_private(void) {
	memory = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(memory, MUCH, MADV_NOHUGEPAGE);
}

static void prepare_high(void) {
	join();
	map_private();
	write_file(GROUP "/memory.swap.max", "0");
	write_file(GROUP "/memory.high", "2M");
}

static void prepare_max(void) {
	join();
	map_private();
	suspend_swap();
	write_file(GROUP "/memory.max", "8M");
}

// Most of the memory is in swap, the first page for sure.
static void swap_out(void) {
	write_file(GROUP "/memory.max", "8M");
	touch_much();
	sleep_ms(300);
	write_file(GROUP "/memory.max", "max");
	suspend_swap();
}

static void prepare_swap(void) {
	join();
	map_private();
	swap_out();
}

static void prepare_swapped_shared(void) {
	join();
	swap_out();
}

static void touch_first(void) { exit(*(volatile char *)memory); }

static void prepare_quota(void) {
	join();
	write_file(GROUP "/cpu.max", "1000 100000");
}

static void spin(void) {
	for (;;) {}
}

static void prepare_io_limit(void) {
	join();
	write_file(GROUP "/io.max", "7:0 rbps=4096");
	file = open("/dev/loop0", O_RDONLY | O_DIRECT);
}

static void read_much(void) {
	static char bytes[1 << 20] __attribute__((aligned(4096)));
	while (pread(file, bytes, sizeof bytes, 0) > 0) {}
}

static void open_new(void) { file = open(MOUNT "/dirty", O_RDWR | O_CREAT | O_TRUNC, 0600); }

static void write_much(void) {
	static char bytes[1 << 16];
	for (size_t done = 0; done < 8 << 20; done += sizeof bytes) {
		if (write(file, bytes, sizeof bytes) < 0) exit(1);
	}
}

static void prepare_dirty(void) {
	open_new();
	sync();
	write_file("/proc/sys/vm/dirty_background_bytes", "262144");
	write_file("/proc/sys/vm/dirty_bytes", "524288");
	suspend_disk();
}

static void prepare_dirty_group(void) {
	write_file("/proc/sys/vm/dirty_ratio", "20");
	write_file("/proc/sys/vm/dirty_background_ratio", "10");
	join();
	open_new();
	sync();
	write_file(GROUP "/memory.max", "12M");
	suspend_disk();
}

static void run_on(int cpu) {
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
}

// Keeps the workers of its CPU from running, which has pages to put on the lists.
static void spin_first(void) {
	struct sched_param priority = {.sched_priority = 50};
	map_private();
	run_on(1);
	if (sched_setscheduler(0, SCHED_FIFO, &priority)) exit(1);
	for (int page = 0; page < 5; page++) memory[page * 4096] = 1;
	shared->held = getpid();
	spin();
}

static void prepare_drain(void) {
	write_file("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	run_on(0);
	if (fork() == 0) spin_first();
	while (!shared->held) sleep_ms(10);
}

static void compact(void) { write_file("/proc/sys/vm/compact_memory", "1"); }

static void call_membarrier(void) {
	for (;;) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

static void move_between_groups(void) {
	for (;;) {
		write_file(OTHER "/cgroup.procs", "0");
		write_file(GROUP "/cgroup.procs", "0");
	}
}

static void *sleep_long(void *unused) {
	sleep_ms(LONG_S * 1000L);
	return unused;
}

// A process of many threads, each of which takes time to move.
static void run_threads(void) {
	pthread_t thread;
	for (int i = 0; i < 200; i++) pthread_create(&thread, NULL, sleep_long, NULL);
	sleep_long(NULL);
}

static void move_threads(pid_t process) {
	char number[16];
	snprintf(number, sizeof number, "%d", process);
	for (;;) {
		write_file(OTHER "/cgroup.procs", number);
		write_file(GROUP "/cgroup.procs", number);
	}
}

static void prepare_moves(void) {
	join();
	pid_t process = fork();
	if (process == 0) run_threads();
	if (fork() == 0) move_threads(process);
}

static void fork_often(void) {
	for (;;) {
		pid_t child = fork();
		if (child == 0) _exit(0);
		waitpid(child, NULL, 0);
	}
}

const struct kind LIMIT_KINDS[] = {
	{"memory-high", touch_much, prepare_high},
	{"memory-max", touch_much, prepare_max},
	{"swap-in", touch_first, prepare_swap},
	{"swap-in-shared", touch_first, prepare_swapped_shared},
	{"cpu-quota", spin, prepare_quota, "task_work_run", true},
	{"io-limit", read_much, prepare_io_limit},
	{"dirty-limit", write_much, prepare_dirty},
	{"dirty-limit-of-cgroup", write_much, prepare_dirty_group},
	{"page-lists", compact, prepare_drain},
	{"rcu", call_membarrier, NULL, "membarrier"},
	{"cgroup-move", move_between_groups, join, "cgroup_procs_write"},
	{"cgroup-fork", fork_often, prepare_moves, "cgroup_can_fork"},
	{NULL},
};

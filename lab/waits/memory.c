// Waits for an address space: a process that reads /proc/PID/mem where a FUSE file is mapped keeps the mmap_lock of PID
// for reading until the daemon answers. Who changes the address space waits; who reads it waits behind a thread that
// does.
#include "waits.h"
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define BYTES (1 << 16)
#define HUGE_BYTES (2 << 20)

static char *slow, *fresh, *faulting;
static int ends[2];

static char *map(size_t bytes, int flags) {
	char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	if (start == MAP_FAILED) exit(1);
	return start;
}

static int open_of(pid_t pid, const char *name) {
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	return open(path, O_RDONLY);
}

static void read_of_parent(void) {
	char byte;
	if (pread(open_of(getppid(), "mem"), &byte, 1, (uintptr_t)slow) < 0) exit(1);
}

static void map_slow(void) {
	struct stat facts;
	mlockall(MCL_CURRENT);
	munlockall();
	int file = open(mount_fuse(FUSE_READ, false), O_RDONLY);
	fstat(file, &facts);
	slow = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
	fresh = map(BYTES, 0);
}

static void prepare_writer(void) {
	map_slow();
	hold(read_of_parent);
}

static void call_mmap(void) { map(BYTES, 0); }

static void prepare_reader(void) {
	map_slow();
	start_thread(call_mmap);
	hold(read_of_parent);
	go = true;
	sleep_ms(500);
}

// A process that has mmap_lock held, and a thread that wants to write.
static void be_held(void) {
	shared->held = 0;
	prepare_reader();
	shared->held = getpid();
	pause();
}

static void prepare_other(void) {
	fresh = map(BYTES, 0);
	if (fork() == 0) be_held();
	while (!shared->held) sleep_ms(10);
}

static void call_munmap(void) { munmap(fresh, 4096); }
static void call_mremap(void) { mremap(fresh, 4096, BYTES * 2, MREMAP_MAYMOVE); }
static void call_mprotect(void) { mprotect(fresh, 4096, PROT_READ); }
static void call_mlock(void) { mlock(fresh, 4096); }
static void call_mlockall(void) { mlockall(MCL_CURRENT); }
static void call_brk(void) { syscall(SYS_brk, (char *)sbrk(0) + (1 << 20)); }
static void call_madvise(void) { madvise(fresh, 4096, MADV_DONTFORK); }
static void call_fork(void) { if (fork() == 0) _exit(0); }
static void touch(void) { *(volatile char *)fresh = 1; }

static void read_all(int file) {
	static char text[1 << 16];
	while (read(file, text, sizeof text) > 0) {}
	exit(1);
}

static void read_rollup(void) { read_all(open_of(getpid(), "smaps_rollup")); }
static void read_command(void) { read_all(open_of(shared->held, "cmdline")); }
static void read_mem(void) { read_of_parent(); }

static void read_other(void) {
	char byte;
	struct iovec here = {&byte, 1}, there = {fresh, 1};
	process_vm_readv(shared->held, &here, 1, &there, 1, 0);
}

// The process that holds the lock: its parent is the one that it reads.
static void prepare_holder(void) {
	map_slow();
	if (fork() > 0) pause();
	shared->subject = getpid();
}

// Memory of which nobody handles the faults.
static char *map_faulting(size_t bytes, int flags) {
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	char *start = map(bytes, flags);
	struct uffdio_register range = {.range = {(uintptr_t)start, bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	if (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range)) exit(1);
	return start;
}

static void prepare_userfault(void) { faulting = map_faulting(BYTES, 0); }
static void fault(void) { *(volatile char *)faulting = 1; }

static void prepare_userfault_huge(void) {
	write_file("/proc/sys/vm/nr_hugepages", "2");
	faulting = map_faulting(HUGE_BYTES, MAP_HUGETLB);
}

static void read_into_fault(void) { if (read(open("/dev/zero", O_RDONLY), faulting, 4096) < 0) exit(1); }
static void write_from_fault(void) { if (write(ends[1], faulting, 4096) < 0) exit(1); }
static void write_to_pipe(void) { if (write(ends[1], "x", 1) < 0) exit(1); }

// A thread that keeps the pipe's mutex while it waits for a handler.
static void prepare_pipe_mutex(void) {
	prepare_userfault();
	if (pipe(ends)) exit(1);
	start_thread(write_from_fault);
	go = true;
	sleep_ms(400);
}

const struct kind MEMORY_KINDS[] = {
	{"mmap-lock-mmap", call_mmap, prepare_writer},
	{"mmap-lock-munmap", call_munmap, prepare_writer},
	{"mmap-lock-mremap", call_mremap, prepare_writer},
	{"mmap-lock-mprotect", call_mprotect, prepare_writer},
	{"mmap-lock-mlock", call_mlock, prepare_writer},
	{"mmap-lock-mlockall", call_mlockall, prepare_writer},
	{"mmap-lock-brk", call_brk, prepare_writer},
	{"mmap-lock-madvise", call_madvise, prepare_writer},
	{"mmap-lock-fork", call_fork, prepare_writer},
	{"mmap-lock-fault", touch, prepare_reader},
	{"mmap-lock-rollup", read_rollup, prepare_reader},
	{"mmap-lock-cmdline", read_command, prepare_other},
	{"mmap-lock-readv", read_other, prepare_other},
	{"mmap-lock-holder", read_mem, prepare_holder},
	{"userfault", fault, prepare_userfault},
	{"userfault-huge", fault, prepare_userfault_huge},
	{"userfault-read", read_into_fault, prepare_userfault},
	{"pipe-mutex", write_to_pipe, prepare_pipe_mutex},
	{NULL},
};

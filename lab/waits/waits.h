// Kinds of waits, and what makes a process wait.
#pragma once
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Longer than any process is left waiting.
#define LONG_S 1000

struct kind {
	const char *name;
	void (*wait)(void);
	// What the process does before, if it does anything.
	void (*prepare)(void);
	// Where the wait begins and ends many times a second: a function of its system call.
	const char *sampled;
	// The process runs on where it waits, as one over its CPU quota does.
	bool runs;
};

// Shared with the processes that wait.
struct shared {
	volatile bool prepared;
	// Whose stack is printed: the process's own unless it says otherwise.
	volatile pid_t subject;
	// A process that `hold_address_space()` started.
	volatile pid_t held;
};

extern struct shared *shared;
extern const struct kind IPC_KINDS[], MEMORY_KINDS[], LIMIT_KINDS[], DISK_KINDS[], FUSE_KINDS[];

void sleep_ms(long ms);
void await_sleep(pid_t task);
void write_file(const char *path, const char *text);
// A child that calls the function; returns once it sleeps.
pid_t hold(void (*act)(void));
// A thread that calls the function 100 ms after `go` is set.
void start_thread(void (*act)(void));
extern volatile bool go;

// The file of a FUSE daemon that answers all but `silent`, an operation.
char *mount_fuse(int silent, bool reads_ahead);

// The devices under `MOUNT` and of swap: suspended, they finish nothing.
#define MOUNT "/tmp/mount"
void set_up_disks(void);
void suspend_disk(void);
void suspend_swap(void);
void release_disks(void);
void drop_caches(void);

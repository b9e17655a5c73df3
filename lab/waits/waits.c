// waits TRACES [KIND...]: makes a process wait for each kind of thing, and prints its kernel stack of /proc/PID/stack:
// `== KIND`, then a function a line, the innermost first. Writes the stacks with which the scheduler's tracepoint saw the
// same processes go to sleep to the file TRACES, likewise. What a process waits for is what its function does; the table
// of waits is judged by it. A stack is empty where the process did not wait.
#include "waits.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES 3000
#define PREPARE_MS 6000
#define TRACING "/sys/kernel/tracing/"

struct shared *shared;
volatile bool go;

void sleep_ms(long ms) {
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&time, NULL);
}

void write_file(const char *path, const char *text) {
	int file = open(path, O_WRONLY);
	if (file < 0 || write(file, text, strlen(text)) < 0) perror(path);
	close(file);
}

// The state of a task, as in /proc/PID/stat.
static char state(pid_t task) {
	char path[64], text[256];
	snprintf(path, sizeof path, "/proc/%d/stat", task);
	FILE *file = fopen(path, "r");
	char *end = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
	if (file) fclose(file);
	return end ? end[2] : '?';
}

// Waits until the task sleeps, and has for 100 ms.
void await_sleep(pid_t task) {
	for (int tries = 0, asleep = 0; tries < 300 && asleep < 10; tries++) {
		asleep = strchr("SDT", state(task)) ? asleep + 1 : 0;
		sleep_ms(10);
	}
}

pid_t hold(void (*act)(void)) {
	pid_t pid = fork();
	if (pid == 0) {
		act();
		_exit(1);
	}
	await_sleep(pid);
	return pid;
}

static void *begin(void *act) {
	while (!go) sleep_ms(5);
	sleep_ms(100);
	((void (*)(void))act)();
	return NULL;
}

void start_thread(void (*act)(void)) {
	pthread_t thread;
	if (pthread_create(&thread, NULL, begin, act)) exit(1);
}

// The task's stack, a function a line.
static void read_stack(pid_t task, char *stack, size_t room) {
	char path[64], line[512];
	snprintf(path, sizeof path, "/proc/%d/stack", task);
	FILE *file = fopen(path, "r");
	*stack = 0;
	while (file && fgets(line, sizeof line, file)) {
		char *name = strchr(line, ' ');
		size_t used = strlen(stack);
		if (name) snprintf(stack + used, room - used, "%.*s\n", (int)strcspn(name + 1, "+\n"), name + 1);
	}
	if (file) fclose(file);
}

// Reads stacks until one has the function, of a task in one of the states.
static void sample(pid_t task, const char *states, const char *function, char *stack, size_t room) {
	for (int tries = 0; tries < SAMPLES; tries++) {
		read_stack(task, stack, room);
		if (strchr(states, state(task)) && strstr(stack, function)) return;
		sleep_ms(1);
	}
	*stack = 0;
}

static void begin_trace(void) {
	close(open(TRACING "trace", O_WRONLY | O_TRUNC));
	write_file(TRACING "tracing_on", "1");
}

// True if the line of the trace has the task leave the CPU.
static bool is_switch(const char *line, pid_t task) {
	const char *pid = strstr(line, "prev_pid=");
	return pid && atoi(pid + strlen("prev_pid=")) == task;
}

// True if it goes to sleep then, or runs on.
static bool is_as(const struct kind *kind, const char *line) {
	const char *state = strstr(line, "prev_state=");
	return state && (state[strlen("prev_state=")] == 'R') == kind->runs;
}

// The task of a line above a stack: `COMMAND-PID [CPU] ... <stack trace>`. Events of other CPUs may be in between.
static pid_t traced_task(const char *line) {
	const char *cpu = strstr(line, "<stack trace>") ? strchr(line, '[') : NULL;
	while (cpu && cpu > line && *cpu != '-') cpu--;
	return cpu ? atoi(cpu + 1) : 0;
}

// The last stack of the task in the trace, from the scheduler on, that has the kind's function, where there is one.
static void read_trace(pid_t task, const struct kind *kind, char *last, size_t room) {
	char line[512], stack[8192] = "";
	bool waits = false, is_its = false;
	// A reader may miss what is written meanwhile.
	write_file(TRACING "tracing_on", "0");
	FILE *file = fopen(TRACING "trace", "r");
	*last = 0;
	while (true) {
		bool is_end = !file || !fgets(line, sizeof line, file);
		bool is_frame = !is_end && strncmp(line, " => ", 4) == 0;
		if (is_frame && is_its && (*stack || strcmp(line, " => __schedule\n") == 0)) {
			size_t used = strlen(stack);
			snprintf(stack + used, sizeof stack - used, "%s", line + 4);
		}
		if (is_frame) continue;
		if (*stack && strstr(stack, kind->sampled ? kind->sampled : "")) snprintf(last, room, "%s", stack);
		if (is_end) break;
		*stack = 0;
		if (is_switch(line, task)) waits = is_as(kind, line);
		is_its = waits && traced_task(line) == task;
	}
	if (file) fclose(file);
}

static void play(const struct kind *kind, FILE *traces) {
	char stack[8192], traced[8192];
	fflush(stdout);
	fflush(traces);
	begin_trace();
	memset(shared, 0, sizeof *shared);
	pid_t pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		close(STDOUT_FILENO);
		// Later it may not be able to take a fault.
		shared->prepared = false;
		if (kind->prepare) kind->prepare();
		shared->prepared = true;
		kind->wait();
		_exit(1);
	}
	for (int waited = 0; waited < PREPARE_MS && !shared->prepared && state(pid) != 'Z'; waited += 10) sleep_ms(10);
	pid_t subject = shared->subject ? shared->subject : pid;
	if (kind->sampled) {
		sample(subject, kind->runs ? "R" : "SD", kind->sampled, stack, sizeof stack);
	} else {
		await_sleep(subject);
		read_stack(subject, stack, sizeof stack);
	}
	read_trace(subject, kind, traced, sizeof traced);
	bool waits = shared->prepared && strchr("SDTR", state(subject));
	printf("== %s\n%s", kind->name, waits ? stack : "");
	fprintf(traces, "== %s\n%s", kind->name, waits ? traced : "");
	write_file("/sys/fs/cgroup/leaf/cgroup.freeze", "0");
	kill(-pid, SIGKILL);
	release_disks();
	for (int tries = 0; tries < 200 && waitpid(pid, NULL, WNOHANG) == 0; tries++) sleep_ms(10);
}

int main(int count, char **names) {
	const struct kind *all[] = {IPC_KINDS, MEMORY_KINDS, LIMIT_KINDS, DISK_KINDS, FUSE_KINDS};
	FILE *traces = count > 1 ? fopen(names[1], "w") : NULL;
	if (!traces) return 2;
	// Of the order of events on different CPUs.
	write_file(TRACING "trace_clock", "global");
	write_file(TRACING "options/stacktrace", "1");
	write_file(TRACING "events/sched/sched_switch/enable", "1");
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	set_up_disks();
	for (size_t list = 0; list < sizeof all / sizeof *all; list++) {
		for (const struct kind *kind = all[list]; kind->name; kind++) {
			bool is_wanted = count == 2;
			for (int i = 2; i < count; i++) is_wanted |= strcmp(names[i], kind->name) == 0;
			if (is_wanted) play(kind, traces);
		}
	}
	return 0;
}

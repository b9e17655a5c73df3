// Makes a process wait for each kind of thing, and prints its kernel stack: `== KIND`, then a function a line, the
// innermost first. What a process waits for is what its function does; the table of waits is judged by it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <linux/userfaultfd.h>
#include <time.h>
#include <unistd.h>

// Longer than any process is left waiting.
#define LONG_S 1000

static int pair[2];
static char *page;

static void wait_futex(void) {
	static int word = 1;
	syscall(SYS_futex, &word, FUTEX_WAIT, 1, NULL, NULL, 0);
}

static void wait_semaphore(void) {
	int id = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf take = {0, -1, 0};
	semop(id, &take, 1);
}

static void wait_message(void) {
	struct { long type; char text[8]; } message;
	msgrcv(msgget(IPC_PRIVATE, 0600), &message, sizeof message.text, 0, 0);
}

static void wait_pipe(void) {
	char byte;
	if (pipe(pair) == 0 && read(pair[0], &byte, 1) < 0) exit(1);
}

static void wait_pipe_room(void) {
	static char bytes[1 << 20];
	if (pipe(pair) == 0 && write(pair[1], bytes, sizeof bytes) < 0) exit(1);
}

static void wait_eventfd(void) {
	uint64_t count;
	if (read(eventfd(0, 0), &count, sizeof count) < 0) exit(1);
}

static void wait_epoll(void) {
	struct epoll_event event;
	epoll_wait(epoll_create1(0), &event, 1, -1);
}

static void wait_poll(void) {
	struct pollfd wanted = {0};
	if (pipe(pair) == 0) wanted = (struct pollfd){pair[0], POLLIN, 0};
	poll(&wanted, 1, -1);
}

static void wait_select(void) {
	fd_set wanted;
	FD_ZERO(&wanted);
	if (pipe(pair) == 0) FD_SET(pair[0], &wanted);
	select(pair[0] + 1, &wanted, NULL, NULL, NULL);
}

static void wait_unix_socket(void) {
	char byte;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && recv(pair[0], &byte, 1, 0) < 0) exit(1);
}

static void wait_datagram(void) {
	char byte;
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && recv(pair[0], &byte, 1, 0) < 0) exit(1);
}

static void wait_accept(void) {
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/tmp/waits.socket"};
	int server = socket(AF_UNIX, SOCK_STREAM, 0);
	unlink(name.sun_path);
	if (bind(server, (void *)&name, sizeof name) == 0 && listen(server, 1) == 0) accept(server, NULL, NULL);
}

static void wait_sleep(void) {
	struct timespec time = {LONG_S, 0};
	nanosleep(&time, NULL);
}

static void wait_timerfd(void) {
	struct itimerspec time = {.it_value = {LONG_S, 0}};
	uint64_t count;
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	timerfd_settime(timer, 0, &time, NULL);
	if (read(timer, &count, sizeof count) < 0) exit(1);
}

static void wait_child(void) {
	if (fork() == 0) wait_sleep();
	wait(NULL);
}

static void wait_vfork(void) {
	if (vfork() == 0) {
		struct timespec time = {LONG_S, 0};
		syscall(SYS_nanosleep, &time, NULL);
		_exit(0);
	}
}

static void wait_pause(void) { pause(); }

static void wait_sigtimedwait(void) {
	sigset_t wanted;
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGUSR1);
	sigprocmask(SIG_BLOCK, &wanted, NULL);
	sigwaitinfo(&wanted, NULL);
}

static void wait_flock(void) {
	int mine = open("/tmp/waits.lock", O_RDWR | O_CREAT, 0600);
	int other = open("/tmp/waits.lock", O_RDWR);
	flock(mine, LOCK_EX);
	flock(other, LOCK_EX);
}

static void wait_terminal(void) {
	char name[64], byte;
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY), unlocked = 0, number = 0;
	ioctl(master, TIOCSPTLCK, &unlocked);
	ioctl(master, TIOCGPTN, &number);
	snprintf(name, sizeof name, "/dev/pts/%d", number);
	int slave = open(name, O_RDWR | O_NOCTTY);
	if (read(slave, &byte, 1) < 0) exit(1);
}

static void wait_userfault(void) {
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	size_t bytes = sysconf(_SC_PAGESIZE);
	page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = {.range = {(uintptr_t)page, bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	if (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range)) exit(1);
	*page = 1;
}

static void wait_events_of_aio(void) {
	unsigned long context = 0;
	char event[64];
	if (syscall(SYS_io_setup, 1, &context)) exit(1);
	syscall(SYS_io_getevents, context, 1, 1, event, NULL);
}

static void wait_fifo(void) {
	unlink("/tmp/waits.fifo");
	syscall(SYS_mknodat, AT_FDCWD, "/tmp/waits.fifo", 0010600, 0);
	open("/tmp/waits.fifo", O_RDONLY);
}

static void wait_frozen(void) {
	int group = open("/sys/fs/cgroup/leaf/cgroup.procs", O_WRONLY);
	int freeze = open("/sys/fs/cgroup/leaf/cgroup.freeze", O_WRONLY);
	if (write(group, "0", 1) < 0 || write(freeze, "1", 1) < 0) exit(1);
	pause();
}

static const struct {
	const char *name;
	void (*wait)(void);
} KINDS[] = {
	{"futex", wait_futex}, {"semaphore", wait_semaphore}, {"message", wait_message}, {"pipe", wait_pipe},
	{"pipe-room", wait_pipe_room}, {"eventfd", wait_eventfd}, {"epoll", wait_epoll}, {"poll", wait_poll},
	{"select", wait_select}, {"unix-socket", wait_unix_socket}, {"datagram", wait_datagram},
	{"accept", wait_accept}, {"sleep", wait_sleep}, {"timerfd", wait_timerfd}, {"child", wait_child},
	{"vfork", wait_vfork}, {"pause", wait_pause}, {"sigtimedwait", wait_sigtimedwait}, {"flock", wait_flock},
	{"terminal", wait_terminal}, {"userfault", wait_userfault}, {"aio", wait_events_of_aio},
	{"fifo", wait_fifo}, {"frozen", wait_frozen},
};

static void sleep_ms(long ms) {
	struct timespec time = {0, ms * 1000000};
	nanosleep(&time, NULL);
}

// The state of a process, as in /proc/PID/stat.
static char state(pid_t pid) {
	char path[64], text[256];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	FILE *file = fopen(path, "r");
	char *end = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
	if (file) fclose(file);
	return end ? end[2] : '?';
}

// Waits until the process sleeps, and has for 100 ms.
static void await_sleep(pid_t pid) {
	for (int tries = 0, asleep = 0; tries < 500 && asleep < 10; tries++) {
		asleep = strchr("SDT", state(pid)) ? asleep + 1 : 0;
		sleep_ms(10);
	}
}

static void print_stack(pid_t pid) {
	char path[64], line[512];
	snprintf(path, sizeof path, "/proc/%d/stack", pid);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file)) {
		char *name = strchr(line, ' ');
		if (name) printf("%.*s\n", (int)strcspn(name + 1, "+\n"), name + 1);
	}
	if (file) fclose(file);
}

static void thaw(void) {
	int freeze = open("/sys/fs/cgroup/leaf/cgroup.freeze", O_WRONLY);
	if (write(freeze, "0", 1) < 0) perror("thaw");
	close(freeze);
}

int main(void) {
	for (size_t kind = 0; kind < sizeof KINDS / sizeof *KINDS; kind++) {
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0) {
			setpgid(0, 0);
			KINDS[kind].wait();
			_exit(1);
		}
		await_sleep(pid);
		printf("== %s\n", KINDS[kind].name);
		print_stack(pid);
		thaw();
		kill(-pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return 0;
}

// Waits for other processes: locks, pipes, sockets, signals, timers.
#include "waits.h"
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/netlink.h>
#include <mqueue.h>
#include <netinet/in.h>
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
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int pair[2];

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

static int pi_word;

static void lock_pi(void) {
	syscall(SYS_futex, &pi_word, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
	sleep_ms(LONG_S * 1000);
}

static void prepare_futex_pi(void) {
	go = true;
	start_thread(lock_pi);
	sleep_ms(400);
}

static void wait_message_room(void) {
	struct { long type; char text[4096]; } message = {.type = 1};
	int queue = msgget(IPC_PRIVATE, 0600);
	while (msgsnd(queue, &message, sizeof message.text, 0) == 0) {}
}

static void wait_posix_message(void) {
	char text[64];
	struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = sizeof text};
	mq_unlink("/waits");
	mq_receive(mq_open("/waits", O_RDWR | O_CREAT, 0600, &attributes), text, sizeof text, NULL);
}

static void lock_range(void) {
	struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	fcntl(open("/tmp/waits.lock", O_RDWR | O_CREAT, 0600), F_SETLKW, &range);
	pause();
}

static void prepare_range_lock(void) { hold(lock_range); }

static void wait_inotify(void) {
	char event[256];
	int watch = inotify_init();
	inotify_add_watch(watch, "/tmp", IN_DELETE_SELF);
	if (read(watch, event, sizeof event) < 0) exit(1);
}

static void wait_signalfd(void) {
	struct signalfd_siginfo signal;
	sigset_t wanted;
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGUSR1);
	sigprocmask(SIG_BLOCK, &wanted, NULL);
	if (read(signalfd(-1, &wanted, 0), &signal, sizeof signal) < 0) exit(1);
}

static void wait_sigsuspend(void) {
	sigset_t none;
	sigemptyset(&none);
	sigsuspend(&none);
}

static void wait_io_uring(void) {
	struct io_uring_params parameters = {0};
	int ring = syscall(SYS_io_uring_setup, 1, &parameters);
	syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
}

static void wait_terminal_room(void) {
	static char bytes[4096];
	char name[64];
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY), unlocked = 0, number = 0;
	ioctl(master, TIOCSPTLCK, &unlocked);
	ioctl(master, TIOCGPTN, &number);
	snprintf(name, sizeof name, "/dev/pts/%d", number);
	int slave = open(name, O_RDWR | O_NOCTTY);
	while (write(slave, bytes, sizeof bytes) > 0) {}
}

static void wait_unix_room(void) {
	static char bytes[1 << 16];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) exit(1);
	while (write(pair[0], bytes, sizeof bytes) > 0) {}
}

static void wait_unix_connect(void) {
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/tmp/waits.full"};
	int server = socket(AF_UNIX, SOCK_STREAM, 0);
	unlink(name.sun_path);
	if (bind(server, (void *)&name, sizeof name) || listen(server, 1)) exit(1);
	while (connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, sizeof name) == 0) {}
}

// A connection over loopback, `pair`; returns its listening socket.
static int connect_tcp(void) {
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof name;
	int server = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(server, (void *)&name, sizeof name) || listen(server, 4)) exit(1);
	getsockname(server, (void *)&name, &length);
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(pair[0], (void *)&name, sizeof name)) exit(1);
	pair[1] = accept(server, NULL, NULL);
	return server;
}

static void wait_tcp_accept(void) { accept(connect_tcp(), NULL, NULL); }

static void wait_tcp_receive(void) {
	char byte;
	connect_tcp();
	if (recv(pair[0], &byte, 1, 0) < 0) exit(1);
}

static void wait_tcp_room(void) {
	static char bytes[1 << 16];
	connect_tcp();
	while (write(pair[0], bytes, sizeof bytes) > 0) {}
}

static void wait_netlink(void) {
	char message[256];
	if (recv(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), message, sizeof message, 0) < 0) exit(1);
}

static int descriptor;

static void read_descriptor(void) {
	char byte;
	if (read(descriptor, &byte, 1) < 0) exit(1);
}

// Two threads that read one file: the first keeps its position locked while it waits for the FUSE daemon.
static void prepare_file_position(void) {
	descriptor = open(mount_fuse(FUSE_READ, false), O_RDONLY);
	start_thread(read_descriptor);
	go = true;
	sleep_ms(400);
}

const struct kind IPC_KINDS[] = {
	{"futex", wait_futex},
	{"futex-pi", lock_pi, prepare_futex_pi},
	{"semaphore", wait_semaphore},
	{"message", wait_message},
	{"message-room", wait_message_room},
	{"posix-message", wait_posix_message},
	{"pipe", wait_pipe},
	{"pipe-room", wait_pipe_room},
	{"eventfd", wait_eventfd},
	{"epoll", wait_epoll},
	{"poll", wait_poll},
	{"select", wait_select},
	{"inotify", wait_inotify},
	{"unix-socket", wait_unix_socket},
	{"unix-room", wait_unix_room},
	{"unix-connect", wait_unix_connect},
	{"datagram", wait_datagram},
	{"accept", wait_accept},
	{"tcp-accept", wait_tcp_accept},
	{"tcp-receive", wait_tcp_receive},
	{"tcp-room", wait_tcp_room},
	{"netlink", wait_netlink},
	{"sleep", wait_sleep},
	{"timerfd", wait_timerfd},
	{"child", wait_child},
	{"vfork", wait_vfork},
	{"pause", wait_pause},
	{"sigtimedwait", wait_sigtimedwait},
	{"signalfd", wait_signalfd},
	{"sigsuspend", wait_sigsuspend},
	{"flock", wait_flock},
	{"range-lock", lock_range, prepare_range_lock},
	{"file-position", read_descriptor, prepare_file_position},
	{"terminal", wait_terminal},
	{"terminal-room", wait_terminal_room},
	{"aio", wait_events_of_aio},
	{"io-uring", wait_io_uring},
	{"fifo", wait_fifo},
	{"frozen", wait_frozen},
	{NULL},
};

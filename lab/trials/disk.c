/*
 * disk: a file as a disk of limited speed, below a loop device: a FUSE file system that is one file.
 *
 *   disk IMAGE MOUNTPOINT FIFO
 *
 * Serves IMAGE at MOUNTPOINT, which is a file, until that is unmounted. A line `READS WRITES READ_BYTES WRITE_BYTES` of
 * FIFO, all for a second, is its speed from then on, also for requests that wait already. Before the first it serves
 * nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* More than a loop device has requests: those that wait for one way hold up none of the other. */
#define THREADS 160
#define MAX_BYTES (128 << 10)
/* Requests of so much time are served at once after a rest. */
#define BURST_S 0.1
#define NEVER_S 1e9

struct speed {
	double requests, bytes;
	double free_s;
};

struct request {
	struct fuse_in_header head;
	union {
		struct fuse_init_in init;
		struct fuse_read_in read;
		struct {
			struct fuse_write_in write;
			char data[MAX_BYTES];
		};
	};
};

static struct speed reads = { 1, 1, NEVER_S }, writes = { 1, 1, NEVER_S };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static unsigned long changes;
static int image, fuse;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Waits until the speed allows one more request. Where it changes, all that wait begin anew. */
static void take_turn(struct speed *speed, unsigned bytes)
{
	unsigned long seen;

	pthread_mutex_lock(&lock);
	do {
		double due = MAX(speed->free_s, now_s() - BURST_S);
		struct timespec until = { due, (due - (time_t)due) * 1e9 };

		speed->free_s = due + MAX(1 / speed->requests, bytes / speed->bytes);
		seen = changes;
		while (seen == changes && now_s() < due)
			pthread_cond_timedwait(&changed, &lock, &until);
	} while (seen != changes);
	pthread_mutex_unlock(&lock);
}

static void *change_speed(void *path)
{
	/* Opened for writing too, it does not end with its writers. */
	FILE *fifo = fopen(path, "r+");
	double of[4];

	if (!fifo)
		die(path);
	while (fscanf(fifo, "%lf %lf %lf %lf", of, of + 1, of + 2, of + 3) == 4) {
		pthread_mutex_lock(&lock);
		reads = (struct speed){ of[0], of[2], now_s() };
		writes = (struct speed){ of[1], of[3], now_s() };
		changes++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	die(path);
	return NULL;
}

static void reply(const struct request *to, int error, const void *data, size_t bytes)
{
	struct fuse_out_header head = { sizeof head + bytes, -error, to->head.unique };
	struct iovec parts[] = { { &head, sizeof head }, { (void *)data, bytes } };

	if (writev(fuse, parts, 2) < 0 && errno != ENOENT)
		die("reply");
}

static void answer_init(const struct request *request)
{
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.flags = request->init.flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO),
		.max_background = 2 * THREADS,
		.congestion_threshold = 2 * THREADS,
		.max_write = MAX_BYTES,
	};

	reply(request, 0, &out, sizeof out);
}

static void answer_attributes(const struct request *request)
{
	struct fuse_attr_out out = { .attr_valid = 1 << 30, .attr = { .ino = 1, .nlink = 1, .mode = S_IFREG | 0600 } };
	struct stat stat;

	if (fstat(image, &stat))
		die("fstat");
	out.attr.size = stat.st_size;
	out.attr.blksize = 4096;
	reply(request, 0, &out, sizeof out);
}

static void answer_read(const struct request *request, char *data)
{
	ssize_t bytes;

	take_turn(&reads, request->read.size);
	bytes = request->read.size > MAX_BYTES ? -1 : pread(image, data, request->read.size, request->read.offset);
	reply(request, bytes < 0 ? EIO : 0, data, bytes < 0 ? 0 : bytes);
}

static void answer_write(const struct request *request)
{
	const struct fuse_write_in *in = &request->write;
	struct fuse_write_out out = { .size = in->size };

	take_turn(&writes, in->size);
	if (pwrite(image, request->data, in->size, in->offset) == (ssize_t)in->size)
		reply(request, 0, &out, sizeof out);
	else
		reply(request, EIO, NULL, 0);
}

static void answer(const struct request *request, char *data)
{
	const struct fuse_open_out opened = { .open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES };

	switch (request->head.opcode) {
	case FUSE_INIT:
		return answer_init(request);
	case FUSE_GETATTR:
		return answer_attributes(request);
	case FUSE_OPEN:
		return reply(request, 0, &opened, sizeof opened);
	case FUSE_READ:
		return answer_read(request, data);
	case FUSE_WRITE:
		return answer_write(request);
	case FUSE_FSYNC:
		return reply(request, fdatasync(image) ? errno : 0, NULL, 0);
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		return reply(request, 0, NULL, 0);
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	default:
		return reply(request, ENOSYS, NULL, 0);
	}
}

static void *serve(void *unused)
{
	struct request *request = malloc(sizeof *request);
	char *data = malloc(MAX_BYTES);

	(void)unused;
	if (!request || !data)
		die("malloc");
	for (;;) {
		if (read(fuse, request, sizeof *request) > 0)
			answer(request, data);
		else if (errno == ENODEV)
			exit(0);
		else if (errno != EINTR && errno != EAGAIN && errno != ENOENT)
			die("/dev/fuse");
	}
}

int main(int argc, char **argv)
{
	pthread_condattr_t monotonic;
	pthread_t thread;
	char options[64];

	if (argc != 4)
		return 2;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &monotonic);
	image = open(argv[1], O_RDWR);
	if (image < 0)
		die(argv[1]);
	fuse = open("/dev/fuse", O_RDWR);
	if (fuse < 0)
		die("/dev/fuse");
	snprintf(options, sizeof options, "fd=%d,rootmode=100000,user_id=0,group_id=0", fuse);
	if (mount("disk", argv[2], "fuse", MS_NOSUID | MS_NODEV, options))
		die(argv[2]);
	for (int i = 1; i < THREADS; i++)
		pthread_create(&thread, NULL, serve, NULL);
	pthread_create(&thread, NULL, change_speed, argv[3]);
	serve(NULL);
}

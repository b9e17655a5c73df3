// Waits for a FUSE daemon, which reads every request and does not answer some; and for a thread that waits for it, which
// no signal ends.
#include "waits.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define REQUEST_BYTES (1 << 17)
#define FILE_BYTES (1 << 16)

static char path[64], bytes[4096];
static int file;

static void answer(int device, uint64_t request, int error, const void *body, size_t length) {
	struct {
		struct fuse_out_header head;
		char body[256];
	} reply = {.head = {.len = sizeof reply.head + length, .error = error, .unique = request}};
	memcpy(reply.body, body, length);
	if (write(device, &reply, reply.head.len) < 0) perror("fuse");
}

static void serve(int device, int silent, bool reads_ahead) {
	static char request[REQUEST_BYTES];
	const struct fuse_in_header *head = (void *)request;
	struct fuse_init_out init = {.major = 7, .minor = 31, .max_readahead = FILE_BYTES, .max_write = 4096};
	struct fuse_attr_out attributes = {.attr_valid = LONG_S};
	struct fuse_open_out opened = {0};
	init.flags = reads_ahead ? FUSE_ASYNC_READ : 0;
	attributes.attr = (struct fuse_attr){.ino = 1, .size = FILE_BYTES, .mode = S_IFREG | 0600, .nlink = 1};
	while (read(device, request, sizeof request) > 0) {
		if (head->opcode == (uint32_t)silent) continue;
		switch (head->opcode) {
		case FUSE_INIT: answer(device, head->unique, 0, &init, sizeof init); break;
		case FUSE_GETATTR: answer(device, head->unique, 0, &attributes, sizeof attributes); break;
		case FUSE_OPEN: answer(device, head->unique, 0, &opened, sizeof opened); break;
		case FUSE_FORGET:
		case FUSE_INTERRUPT: break;
		default: answer(device, head->unique, -ENOSYS, NULL, 0);
		}
	}
}

char *mount_fuse(int silent, bool reads_ahead) {
	char options[128];
	int device = open("/dev/fuse", O_RDWR);
	snprintf(path, sizeof path, "/tmp/fuse.%d", getpid());
	close(open(path, O_CREAT, 0600));
	snprintf(options, sizeof options, "fd=%d,rootmode=100600,user_id=0,group_id=0", device);
	if (mount("waits", path, "fuse", 0, options)) exit(1);
	if (fork() == 0) {
		serve(device, silent, reads_ahead);
		_exit(0);
	}
	close(device);
	return path;
}

static void open_fuse(int silent, bool reads_ahead) {
	struct stat facts;
	file = open(mount_fuse(silent, reads_ahead), O_RDWR);
	fstat(file, &facts);
}

static void prepare_stat(void) { mount_fuse(FUSE_GETATTR, false); }
static void prepare_open(void) { mount_fuse(FUSE_OPEN, false); }
static void prepare_read(void) { open_fuse(FUSE_READ, false); }
static void prepare_read_ahead(void) { open_fuse(FUSE_READ, true); }
static void prepare_write(void) { open_fuse(FUSE_WRITE, false); }
static void prepare_flush(void) { open_fuse(FUSE_FLUSH, false); }

static void ask_for_facts(void) {
	struct stat facts;
	stat(path, &facts);
}

static void open_file(void) { open(path, O_RDONLY); }
static void read_file(void) { if (pread(file, bytes, sizeof bytes, 0) < 0) exit(1); }
static void write_page(void) { if (pwrite(file, bytes, sizeof bytes, 0) < 0) exit(1); }
static void close_file(void) { close(file); }

static void read_mapped(void) {
	volatile char *mapped = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, file, 0);
	exit(*mapped);
}

static void prepare_second_writer(void) {
	prepare_write();
	hold(write_page);
}

static void prepare_stuck_thread(void) {
	prepare_stat();
	start_thread(ask_for_facts);
	go = true;
	sleep_ms(400);
}

static void execute(void) { execl("/bin/busybox", "true", NULL); }

static void prepare_dump(void) {
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	setrlimit(RLIMIT_CORE, &all);
	write_file("/proc/sys/kernel/core_pattern", "/tmp/core");
	prepare_stuck_thread();
}

static void dump(void) { abort(); }

const struct kind FUSE_KINDS[] = {
	{"fuse-stat", ask_for_facts, prepare_stat},
	{"fuse-open", open_file, prepare_open},
	{"fuse-read", read_file, prepare_read},
	{"fuse-fault", read_mapped, prepare_read},
	{"fuse-read-ahead", read_file, prepare_read_ahead},
	{"fuse-write", write_page, prepare_write},
	{"fuse-flush", close_file, prepare_flush},
	{"fuse-inode-lock", write_page, prepare_second_writer},
	{"exec-threads", execute, prepare_stuck_thread},
	{"core-dump", dump, prepare_dump},
	{NULL},
};

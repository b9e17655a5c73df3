// Waits for a disk and for a file system on it: the disk is a device-mapper device that is suspended, so that what is
// sent to it stays.
#include "waits.h"
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#define DISK "/dev/dm-0"
#define SWAP "/dev/dm-1"
#define FILE_PATH MOUNT "/file"
#define FILE_BYTES (64 << 10)
#define SECTOR 512

static int control, mounted, file;
static char *mapped;
static char bytes[FILE_BYTES] __attribute__((aligned(4096)));

static int command(unsigned long request, const char *name, uint32_t flags, const char *backing) {
	struct {
		struct dm_ioctl head;
		struct dm_target_spec target;
		char parameters[64];
	} call = {.head = {.version = {4, 0, 0}, .data_size = sizeof call, .data_start = sizeof call.head, .flags = flags}};
	snprintf(call.head.name, sizeof call.head.name, "%s", name);
	if (backing) {
		uint64_t size = 0;
		int device = open(backing, O_RDONLY);
		ioctl(device, BLKGETSIZE64, &size);
		close(device);
		call.head.target_count = 1;
		call.target.length = size / SECTOR;
		strcpy(call.target.target_type, "linear");
		snprintf(call.parameters, sizeof call.parameters, "%s 0", backing);
	}
	return ioctl(control, request, &call);
}

static void create(const char *name, const char *backing) {
	if (command(DM_DEV_CREATE, name, 0, NULL) || command(DM_TABLE_LOAD, name, 0, backing)) perror(name);
	if (command(DM_DEV_SUSPEND, name, 0, NULL)) perror(name);
}

static void suspend(const char *name) {
	uint32_t flags = DM_SUSPEND_FLAG | DM_SKIP_LOCKFS_FLAG | DM_NOFLUSH_FLAG;
	if (command(DM_DEV_SUSPEND, name, flags, NULL)) exit(1);
}

void suspend_disk(void) { suspend("disk"); }
void suspend_swap(void) { suspend("swap"); }

void release_disks(void) {
	command(DM_DEV_SUSPEND, "disk", 0, NULL);
	command(DM_DEV_SUSPEND, "swap", 0, NULL);
	ioctl(mounted, FITHAW, 0);
}

void set_up_disks(void) {
	control = open("/dev/mapper/control", O_RDWR);
	create("disk", "/dev/loop0");
	create("swap", "/dev/loop1");
	mkdir(MOUNT, 0700);
	if (mount(DISK, MOUNT, "ext4", 0, "")) perror(MOUNT);
	if (swapon(SWAP, 0)) perror(SWAP);
	mounted = open(MOUNT, O_RDONLY);
	mkdir(MOUNT "/directory", 0700);
	file = open(FILE_PATH, O_RDWR | O_CREAT, 0600);
	if (write(file, bytes, sizeof bytes) < 0) perror(FILE_PATH);
	close(file);
	sync();
}

void drop_caches(void) {
	sync();
	write_file("/proc/sys/vm/drop_caches", "1");
}

// Opens the file; nothing of it is dirty.
static void open_file(int flags) {
	file = open(FILE_PATH, O_RDWR | flags);
	// The block of its inode is in memory then.
	if (file < 0 || futimens(file, NULL)) exit(1);
	sync();
}

static void map_file(void) {
	open_file(0);
	mapped = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

static void prepare_read(void) {
	map_file();
	drop_caches();
	suspend_disk();
}

static void read_file(void) { if (pread(file, bytes, 4096, 0) < 0) exit(1); }
static void read_mapped(void) { exit(*(volatile char *)mapped); }

static void prepare_direct(void) {
	open_file(O_DIRECT);
	suspend_disk();
}

// Behind the end, so that no other writer may go on.
static void write_direct(void) { if (pwrite(file, bytes, 4096, lseek(file, 0, SEEK_END)) < 0) exit(1); }

static void prepare_device(void) {
	file = open(DISK, O_RDONLY);
	drop_caches();
	suspend_disk();
}

static void read_device(void) { if (pread(file, bytes, 4096, 20 << 20) < 0) exit(1); }

// Only the directory itself stays in memory, and not its block.
static void prepare_directory(void) {
	file = open(MOUNT "/directory", O_RDONLY);
	drop_caches();
	suspend_disk();
}

static void create_in_directory(void) {
	char name[32];
	snprintf(name, sizeof name, "%d", getpid());
	openat(file, name, O_RDWR | O_CREAT, 0600);
}

static void prepare_directory_lock(void) {
	prepare_directory();
	hold(create_in_directory);
}

static void prepare_dirty(void) {
	open_file(0);
	suspend_disk();
	if (pwrite(file, bytes, sizeof bytes, 0) < 0) exit(1);
}

static void sync_file(void) { fsync(file); }
static void sync_all(void) { sync(); }

static void prepare_writeback(void) {
	prepare_dirty();
	sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
}

static void wait_range(void) { sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE); }
static void cut_file(void) { if (ftruncate(file, 4096)) exit(1); }

// The first page is not in memory, and the second is being written: who cuts the file behind the first waits for it.
static void prepare_cut(void) {
	prepare_read();
	release_disks();
	if (pwrite(file, bytes, sizeof bytes, 0) < 0 || fsync(file)) exit(1);
	if (ftruncate(file, 0) || ftruncate(file, FILE_BYTES)) exit(1);
	sync();
	suspend_disk();
	if (pwrite(file, bytes, 4096, 8192) < 0) exit(1);
	sync_file_range(file, 8192, 4096, SYNC_FILE_RANGE_WRITE);
	hold(cut_file);
}

static void prepare_inode_lock(void) {
	prepare_direct();
	hold(write_direct);
}

static void prepare_journal(void) {
	open_file(0);
	if (fchmod(file, 0640) || fchmod(file, 0600)) exit(1);
	suspend_disk();
}

static pid_t find_thread(const char *name) {
	char path[64], text[64];
	for (pid_t pid = 2; pid < 5000; pid++) {
		snprintf(path, sizeof path, "/proc/%d/comm", pid);
		FILE *comm = fopen(path, "r");
		bool is_it = comm && fgets(text, sizeof text, comm) && strncmp(text, name, strlen(name)) == 0;
		if (comm) fclose(comm);
		if (is_it) return pid;
	}
	return 0;
}

// The commit that the held process asked for.
static void prepare_commit(void) {
	prepare_journal();
	hold(sync_file);
	shared->subject = find_thread("jbd2/dm-0");
}

static void sleep_long(void) { sleep_ms(LONG_S * 1000); }

static void prepare_commit_buffer(void) {
	prepare_journal();
	hold(sync_file);
}

static void change_mode(void) { if (fchmod(file, 0604)) exit(1); }

static void freeze(void) {
	sync();
	if (ioctl(mounted, FIFREEZE, 0)) exit(1);
}

static void prepare_frozen(void) {
	map_file();
	read_file();
	(void)*(volatile char *)mapped;
	freeze();
}

static void write_file_page(void) { if (pwrite(file, bytes, 4096, 0) < 0) exit(1); }
static void write_mapped(void) { *mapped = 1; }
static void create_file(void) { open(MOUNT "/new", O_RDWR | O_CREAT, 0600); }

static void prepare_device_flush(void) {
	file = open(DISK, O_RDWR);
	suspend_disk();
}

const struct kind DISK_KINDS[] = {
	{"disk-read", read_file, prepare_read},
	{"disk-fault", read_mapped, prepare_read},
	{"direct-read", read_file, prepare_direct},
	{"direct-write", write_direct, prepare_direct},
	{"device-read", read_device, prepare_device},
	{"device-flush", sync_file, prepare_device_flush},
	{"directory-read", create_in_directory, prepare_directory},
	{"directory-lock", create_in_directory, prepare_directory_lock},
	{"inode-lock", write_file_page, prepare_inode_lock},
	{"fsync", sync_file, prepare_dirty},
	{"sync", sync_all, prepare_dirty},
	{"writeback", wait_range, prepare_writeback},
	{"truncate", cut_file, prepare_writeback},
	{"invalidate-lock-fault", read_mapped, prepare_cut},
	{"invalidate-lock-read", read_file, prepare_cut},
	{"journal", sync_file, prepare_journal},
	{"journal-thread", sleep_long, prepare_commit},
	{"journal-buffer", change_mode, prepare_commit_buffer},
	{"frozen-file-write", write_file_page, prepare_frozen},
	{"frozen-file-fault", write_mapped, prepare_frozen},
	{"frozen-file-create", create_file, prepare_frozen},
	{NULL},
};

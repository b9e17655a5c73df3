/* A program that handles its own page faults (userfaultfd), and counts the events. */
#include "state.h"
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

#define SIZE (16 * MIB)

static int uffd;
static _Atomic int faults, removed, unmapped, moved;

static void *handle(void *unused) {
    struct uffd_msg message;
    char *page = aligned_alloc(PAGE, PAGE);
    memset(page, 5, PAGE);
    while (1) {
        struct pollfd poll_it = {uffd, POLLIN, 0};
        poll(&poll_it, 1, -1);
        if (read(uffd, &message, sizeof message) != sizeof message) continue;
        if (message.event == UFFD_EVENT_PAGEFAULT) {
            struct uffdio_copy copy = {message.arg.pagefault.address & ~(PAGE - 1), (uintptr_t)page, PAGE, 0, 0};
            faults++;
            ioctl(uffd, UFFDIO_COPY, &copy);
        }
        removed += message.event == UFFD_EVENT_REMOVE;
        unmapped += message.event == UFFD_EVENT_UNMAP;
        moved += message.event == UFFD_EVENT_REMAP;
    }
    return unused;
}

int main(int count, char **names) {
    if (count > 1 && !strcmp(names[1], "device")) {
        int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
        uffd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
    } else
        uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    unsigned long features = UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP;
    struct uffdio_api api = {UFFD_API, features, 0};
    if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api)) return perror("userfaultfd"), 3;
    char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {{(uintptr_t)at, SIZE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (ioctl(uffd, UFFDIO_REGISTER, &all)) return perror("register"), 3;
    pthread_t thread;
    pthread_create(&thread, NULL, handle, NULL);
    long sum = 0;
    for (size_t offset = 0; offset < SIZE; offset += PAGE) sum += at[offset];
    printf("faults %d, sum %ld\n", faults, sum);
    int done = madvise(at, SIZE, MADV_DONTNEED);
    /* The kernel waits until an event is read, not until it is counted. */
    while (!removed) {}
    printf("dropped %d\n", done);
    for (size_t offset = 0; offset < SIZE; offset += PAGE) sum += at[offset];
    done = munmap(at, SIZE);
    while (!unmapped) {}
    printf("faults %d, unmapped %d, events %d %d %d\n", faults, done, removed, unmapped, moved);
    return 0;
}

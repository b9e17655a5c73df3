/* Failures are reported as errors and leave nothing behind. */

#define _GNU_SOURCE
#include <memwright.h>

#include "check.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Resources of this process that a failed call could leave. */
struct own {
    int files;
    int threads;
    long locked_kib;
    long resident_mib;
};

static int entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    CHECK(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static long field(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long value = -1;

    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name), NULL, 10);
    }
    fclose(file);
    CHECK(value >= 0);
    return value;
}

static struct own own(void)
{
    struct own now;

    now.files = entries("/proc/self/fd");
    now.threads = entries("/proc/self/task");
    now.locked_kib = field("VmLck:");
    now.resident_mib = field("VmRSS:") / 1024;
    return now;
}

/* The kernel removes a joined thread shortly after the join. */
static void check_own(struct own before)
{
    struct own now = own();

    for (int turn = 0; turn < 200 && now.threads > before.threads; turn++) {
        usleep(10000);
        now = own();
    }
    CHECK(now.files == before.files);
    CHECK(now.threads <= before.threads);
    CHECK(now.locked_kib == before.locked_kib);
    CHECK(now.resident_mib < before.resident_mib + 32);
}

static mw_options *options_of(size_t bytes, int kind, int page)
{
    mw_options *options = mw_options_new(bytes);

    CHECK(options != NULL);
    CHECK(mw_options_set_kind(options, kind) == MW_OK);
    CHECK(mw_options_set_page(options, page) == MW_OK);
    return options;
}

/* Expects an error, and frees the options. */
static mw_error *refused(mw_options *options, mw_progress_fn progress, void *user, int status)
{
    mw_segment *segment = (mw_segment *)&segment;
    mw_error *error = NULL;
    int result = mw_segment_create(options, progress, user, &segment, &error);

    if (result != status)
        fprintf(stderr, "%s: %s\n", mw_status_text(result), mw_error_text(error));
    CHECK(result == status);
    CHECK(segment == NULL);
    CHECK(error != NULL);
    CHECK((int)mw_error_status(error) == status);
    CHECK(strlen(mw_error_text(error)) > 0);
    CHECK((mw_error_shortage(error) != NULL) == (status == MW_SHORT));
    mw_options_free(options);
    return error;
}

static void null_options(void)
{
    const uint32_t node = 0;

    CHECK(mw_options_set_kind(NULL, MW_KIND_ANON) == MW_INVALID);
    CHECK(mw_options_set_page(NULL, MW_PAGE_BASE) == MW_INVALID);
    CHECK(mw_options_set_lenient(NULL, 1) == MW_INVALID);
    CHECK(mw_options_set_locked(NULL, 1) == MW_INVALID);
    CHECK(mw_options_set_workers(NULL, 1) == MW_INVALID);
    CHECK(mw_options_set_name(NULL, "name") == MW_INVALID);
    CHECK(mw_options_set_key(NULL, 1) == MW_INVALID);
    CHECK(mw_options_set_kept(NULL, 1) == MW_INVALID);
    CHECK(mw_options_set_cancel(NULL, NULL) == MW_INVALID);
    CHECK(mw_options_place_local(NULL) == MW_INVALID);
    CHECK(mw_options_place_bind(NULL, &node, 1) == MW_INVALID);
    CHECK(mw_options_place_interleave(NULL, &node, 1) == MW_INVALID);
    CHECK(mw_options_place_range(NULL, 0, MIB, &node, 1) == MW_INVALID);
    CHECK(mw_options_refusal(NULL) == NULL);
    mw_options_free(NULL);
    mw_cancel_set(NULL);
    CHECK(!mw_cancel_is_set(NULL));
    mw_cancel_free(NULL);
}

static void null_handles(void)
{
    mw_options *options = mw_options_new(MIB);
    mw_error *error = NULL;
    size_t bytes = 7;

    mw_error_free(refused(NULL, NULL, NULL, MW_INVALID));
    CHECK(mw_segment_create(options, NULL, NULL, NULL, &error) == MW_INVALID);
    CHECK(strstr(mw_error_text(error), "segment is NULL") != NULL);
    CHECK(mw_segment_create(NULL, NULL, NULL, NULL, NULL) == MW_INVALID);
    mw_error_free(error);
    mw_options_free(options);
    CHECK(mw_error_status(NULL) == MW_OK);
    CHECK(strcmp(mw_error_text(NULL), "") == 0);
    CHECK(mw_error_errno(NULL) == 0);
    CHECK(mw_error_shortage(NULL) == NULL);
    mw_error_free(NULL);
    CHECK(mw_segment_address(NULL) == NULL);
    CHECK(mw_segment_bytes(NULL) == 0);
    CHECK(mw_segment_kind(NULL) == MW_KIND_NONE);
    CHECK(mw_segment_page(NULL) == MW_PAGE_AUTO);
    CHECK(!mw_segment_is_locked(NULL));
    CHECK(!mw_segment_huge_bytes(NULL, &bytes) && bytes == 7);
    CHECK(mw_segment_sysv_id(NULL) == -1);
    CHECK(mw_segment_stripes(NULL) == 0);
    CHECK(mw_segment_stripe_fd(NULL, 0) == -1);
    CHECK(mw_segment_stripe_bytes(NULL, 0) == 0);
    CHECK(mw_segment_times(NULL) == NULL);
    CHECK(mw_segment_destroy_with(NULL, NULL, NULL) == 0);
    mw_segment_destroy(NULL);
}

/* An invalid value is an error immediately, and again when the segment is created. */
static void meaningless(void)
{
    const int kinds[] = { -1, 0, 7, INT_MIN, INT_MAX };
    const int pages[] = { -1, 13, INT_MIN, INT_MAX };
    const uint32_t node = 0;
    mw_options *options;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        options = mw_options_new(MIB);
        CHECK(mw_options_set_kind(options, kinds[i]) == MW_INVALID);
        CHECK(strstr(mw_options_refusal(options), "invalid mw_kind") != NULL);
        mw_error_free(refused(options, NULL, NULL, MW_INVALID));
        CHECK(mw_kind_name(kinds[i]) == NULL);
    }
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        options = mw_options_new(MIB);
        CHECK(mw_options_set_page(options, pages[i]) == MW_INVALID);
        mw_error_free(refused(options, NULL, NULL, MW_INVALID));
        CHECK(mw_page_name(pages[i]) == NULL);
        CHECK(mw_status_text(pages[i]) != NULL);
    }
    options = mw_options_new(MIB);
    CHECK(mw_options_set_name(options, NULL) == MW_INVALID);
    CHECK(mw_options_set_name(options, "\xff") == MW_INVALID);
    CHECK(mw_options_place_bind(options, NULL, 1) == MW_INVALID);
    CHECK(mw_options_place_bind(options, &node, 0) == MW_INVALID);
    CHECK(mw_options_place_interleave(options, &node, SIZE_MAX) == MW_INVALID);
    CHECK(mw_options_place_range(options, SIZE_MAX, 2, &node, 1) == MW_INVALID);
    CHECK(mw_options_place_range(options, 0, 0, &node, 1) == MW_INVALID);
    mw_error_free(refused(options, NULL, NULL, MW_INVALID));
}

static void contradictions(void)
{
    const uint32_t node = 0;
    const uint32_t nowhere = 900;
    mw_options *options = options_of(MIB, MW_KIND_ANON, MW_PAGE_BASE);
    mw_error *error;

    mw_error_free(refused(mw_options_new(0), NULL, NULL, MW_INVALID));
    mw_error_free(refused(options_of(SIZE_MAX, MW_KIND_ANON, MW_PAGE_BASE), NULL, NULL,
                          MW_INVALID));
    error = refused(options_of(MIB, MW_KIND_POSIX, MW_PAGE_BASE), NULL, NULL, MW_INVALID);
    CHECK(strstr(mw_error_text(error), "name") != NULL);
    mw_error_free(error);
    mw_error_free(refused(options_of(MIB, MW_KIND_POSIX, MW_PAGE_1G), NULL, NULL, MW_INVALID));
    CHECK(mw_options_place_bind(options, &nowhere, 1) == MW_OK);
    mw_error_free(refused(options, NULL, NULL, MW_INVALID));
    options = options_of(MIB, MW_KIND_ANON, MW_PAGE_BASE);
    CHECK(mw_options_place_range(options, MIB / 2, MIB, &node, 1) == MW_OK);
    mw_error_free(refused(options, NULL, NULL, MW_INVALID));
}

/* On a kernel without NUMA, placement is an error. */
static void placed(void)
{
    const uint32_t node = 0;
    mw_options *options = options_of(4 * MIB, MW_KIND_MEMFD, MW_PAGE_BASE);
    mw_segment *segment = NULL;
    mw_status status;

    CHECK(mw_options_place_interleave(options, &node, 1) == MW_OK);
    CHECK(mw_options_place_bind(options, &node, 1) == MW_OK);
    CHECK(mw_options_place_range(options, 0, MIB, &node, 1) == MW_OK);
    CHECK(mw_options_place_range(options, 2 * MIB, MIB, &node, 1) == MW_OK);
    status = mw_segment_create(options, NULL, NULL, &segment, NULL);
    CHECK(status == MW_OK || status == MW_INVALID);
    mw_segment_destroy(segment);
    mw_options_free(options);
}

static void check_shortage(const mw_error *error, uint64_t asked_bytes)
{
    const mw_shortage *shortage = mw_error_shortage(error);

    CHECK(shortage->asked_bytes >= asked_bytes);
    CHECK(shortage->had_bytes < shortage->asked_bytes);
    CHECK(shortage->missing_bytes == shortage->asked_bytes - shortage->had_bytes);
    CHECK(strlen(shortage->remedy) > 0);
    CHECK((shortage->page_bytes > 0) == (shortage->limit == MW_LIMIT_HUGE_PAGES));
    CHECK((shortage->cgroup != NULL) == (shortage->limit == MW_LIMIT_CGROUP));
}

static void too_much(void)
{
    size_t bytes = (size_t)1 << 46;
    mw_options *options = options_of(bytes, MW_KIND_ANON, MW_PAGE_BASE);
    mw_error *error = refused(options, NULL, NULL, MW_SHORT);
    mw_limit limit = mw_error_shortage(error)->limit;

    CHECK(limit == MW_LIMIT_MEMORY || limit == MW_LIMIT_CGROUP);
    check_shortage(error, bytes);
    mw_error_free(error);
    if (access("/sys/kernel/mm/hugepages/hugepages-2048kB", F_OK) == 0) {
        error = refused(options_of(bytes, MW_KIND_HUGETLB, MW_PAGE_2M), NULL, NULL, MW_SHORT);
        CHECK(mw_error_shortage(error)->limit == MW_LIMIT_HUGE_PAGES);
        CHECK(mw_error_shortage(error)->page_bytes == 2 * MIB);
        check_shortage(error, bytes);
        mw_error_free(error);
    }
}

static int count_and_stop(const mw_progress *progress, void *user)
{
    int *calls = user;

    CHECK(progress->phase == MW_PHASE_CREATE);
    CHECK(progress->done_bytes <= progress->total_bytes);
    CHECK(progress->elapsed_ns > 0);
    ++*calls;
    return -1;
}

/* On a fast machine only a large segment takes long enough for a progress report. */
static void cancelled_by_progress(void)
{
    for (size_t bytes = 256 * MIB; bytes <= 4096 * MIB; bytes *= 2) {
        mw_options *options = options_of(bytes, MW_KIND_ANON, MW_PAGE_BASE);
        mw_segment *segment = NULL;
        mw_error *error = NULL;
        int calls = 0;
        mw_status status;

        mw_options_set_workers(options, 1);
        status = mw_segment_create(options, count_and_stop, &calls, &segment, &error);
        mw_options_free(options);
        mw_segment_destroy(segment);
        CHECK(calls <= 1);
        CHECK(status == (calls == 1 ? MW_CANCELLED : MW_OK));
        CHECK((error != NULL) == (calls == 1));
        mw_error_free(error);
        if (calls == 1)
            return;
    }
    CHECK(!"progress was reported");
}

static void cancelled_by_token(void)
{
    mw_options *options = options_of(64 * MIB, MW_KIND_MEMFD, MW_PAGE_BASE);
    mw_cancel *cancel = mw_cancel_new();

    CHECK(mw_options_set_cancel(options, cancel) == MW_OK);
    CHECK(!mw_cancel_is_set(cancel));
    mw_cancel_set(cancel);
    CHECK(mw_cancel_is_set(cancel));
    mw_cancel_free(cancel);
    mw_error_free(refused(options, NULL, NULL, MW_CANCELLED));
}

/* A failed system call is reported with its errno. */
static void taken_name(void)
{
    char name[64];
    mw_options *options = options_of(MIB, MW_KIND_POSIX, MW_PAGE_BASE);
    mw_segment *segment = NULL;
    mw_error *error = NULL;

    snprintf(name, sizeof name, "memwright-test-%ld", (long)getpid());
    CHECK(mw_options_set_name(options, name) == MW_OK);
    CHECK(mw_segment_create(options, NULL, NULL, &segment, &error) == MW_OK);
    CHECK(error == NULL);
    error = refused(options, NULL, NULL, MW_SYSTEM);
    CHECK(mw_error_errno(error) == 17);
    mw_error_free(error);
    mw_segment_destroy(segment);
}

static void check_stripes(const mw_segment *segment)
{
    size_t stripes = mw_segment_stripes(segment);
    size_t sum = 0;
    struct stat file;

    for (size_t i = 0; i < stripes; i++) {
        CHECK(fstat(mw_segment_stripe_fd(segment, i), &file) == 0);
        CHECK((size_t)file.st_size == mw_segment_stripe_bytes(segment, i));
        sum += mw_segment_stripe_bytes(segment, i);
    }
    CHECK(stripes == 0 || sum == mw_segment_bytes(segment));
    CHECK(mw_segment_stripe_fd(segment, stripes) == -1);
    CHECK(mw_segment_stripe_bytes(segment, stripes) == 0);
}

static void made(int kind)
{
    mw_options *options = options_of(64 * MIB - 1, kind, MW_PAGE_BASE);
    mw_segment *segment = NULL;
    const mw_times *times;
    int sysv = kind == MW_KIND_ISM || kind == MW_KIND_DISM;

    mw_options_set_lenient(options, 1);
    mw_options_set_locked(options, kind == MW_KIND_MEMFD);
    mw_options_place_local(options);
    CHECK(mw_segment_create(options, NULL, NULL, &segment, NULL) == MW_OK);
    mw_options_free(options);
    memset(mw_segment_address(segment), 1, mw_segment_bytes(segment));
    CHECK(mw_segment_bytes(segment) == 64 * MIB);
    CHECK((int)mw_segment_kind(segment) == kind);
    CHECK(mw_segment_page(segment) == MW_PAGE_BASE);
    CHECK(mw_segment_is_locked(segment) == (kind == MW_KIND_MEMFD || kind == MW_KIND_ISM));
    CHECK((mw_segment_sysv_id(segment) >= 0) == sysv);
    CHECK((mw_segment_stripes(segment) > 0) == (kind == MW_KIND_MEMFD));
    check_stripes(segment);
    times = mw_segment_times(segment);
    CHECK(times->populate_ns > 0 && times->workers >= 1 && times->helpers == times->workers);
    mw_segment_destroy(segment);
}

/* Without CAP_IPC_LOCK: as another user. */
static void memlock(void)
{
    struct rlimit limit = { MIB, MIB };
    mw_options *options;
    mw_error *error;

    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    CHECK(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    options = options_of(64 * MIB, MW_KIND_MEMFD, MW_PAGE_BASE);
    CHECK(mw_options_set_locked(options, 1) == MW_OK);
    error = refused(options, NULL, NULL, MW_SHORT);
    CHECK(mw_error_shortage(error)->limit == MW_LIMIT_MEMLOCK);
    CHECK(mw_error_shortage(error)->had_bytes == MIB);
    check_shortage(error, 64 * MIB);
    mw_error_free(error);
}

int main(void)
{
    struct own before;

    CHECK(strcmp(mw_version(), MW_VERSION) == 0);
    made(MW_KIND_MEMFD);
    before = own();
    null_options();
    null_handles();
    meaningless();
    contradictions();
    too_much();
    cancelled_by_progress();
    cancelled_by_token();
    taken_name();
    placed();
    for (int kind = MW_KIND_DISM; kind <= MW_KIND_ANON; kind++)
        made(kind);
    check_own(before);
    memlock();
    check_own(before);
    printf("all errors reported, nothing left\n");
    return EXIT_SUCCESS;
}

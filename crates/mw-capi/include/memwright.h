/*
 * memwright.h: large segments of memory, created, locked and destroyed in parallel, and populated
 * memory leased from a pool.
 *
 * Generated from crates/mw-capi by 'cargo xtask docs'. License: Apache-2.0 OR MIT.
 *
 *     cc program.c $(pkg-config --cflags --libs memwright)
 *
 * Rules for every function:
 *
 * NULL and invalid numbers are errors, never followed. Enumerations are passed as int.
 *
 * Sizes are in bytes and times in nanoseconds, as their names say.
 *
 * The program frees the handles that it creates: mw_options_free(), mw_cancel_free(),
 * mw_error_free(), mw_segment_destroy(), mw_pool_detach(). Texts and structures that a function
 * returns are owned by the handle that they were read from. Arguments are copied.
 *
 * Functions may be called from any thread. Several threads may read one handle at the same time;
 * while one thread changes or frees it, no other may use it. 'Threads' describes exceptions.
 *
 * No function reports errors by errno(3), installs a signal handler, or leaves a thread behind.
 * After fork(2) a child may call all of them.
 */

#ifndef MEMWRIGHT_H
#define MEMWRIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The version of this header; mw_version() is that of the library. */
#define MW_VERSION "0.2.0"
#define MW_VERSION_MAJOR 0
#define MW_VERSION_MINOR 2
#define MW_VERSION_PATCH 0

/**
 * The result of a call.
 */
typedef enum mw_status {
  /**
   * Success.
   */
  MW_OK = 0,
  /**
   * An argument is NULL or invalid, or options contradict each other or the machine.
   */
  MW_INVALID = 1,
  /**
   * A limit is below the requested amount: see mw_error_shortage().
   */
  MW_SHORT = 2,
  /**
   * Cancelled.
   */
  MW_CANCELLED = 3,
  /**
   * This machine or this kind does not have pages of this size.
   */
  MW_NO_SUCH_PAGES = 4,
  /**
   * Fewer transparent huge pages than requested were available: memory is fragmented.
   */
  MW_FRAGMENTED = 5,
  /**
   * The hardware reported an error in a page (EHWPOISON).
   */
  MW_POISONED = 6,
  /**
   * A system call failed for a reason that no limit explains: see mw_error_errno().
   */
  MW_SYSTEM = 7,
  /**
   * An error inside the library: please report it with the error's text.
   */
  MW_INTERNAL = 8,
  /**
   * No pool server responds.
   */
  MW_NO_SERVER = 9,
  /**
   * The pool server rejected the request: the pool does not exist, is full or too small, or
   * permission is denied.
   */
  MW_REFUSED = 10,
  /**
   * The pool's memory was not ready in time.
   */
  MW_NOT_READY = 11,
} mw_status;

/**
 * A limit.
 */
typedef enum mw_limit {
  /**
   * A limit without a number in this version; the error's text names it.
   */
  MW_LIMIT_OTHER = 0,
  /**
   * Available memory of the machine (MemAvailable).
   */
  MW_LIMIT_MEMORY = 1,
  /**
   * Available memory of the nodes that the segment is bound to.
   */
  MW_LIMIT_NODE_MEMORY = 2,
  /**
   * The commit limit of strict overcommit (CommitLimit).
   */
  MW_LIMIT_COMMIT = 3,
  /**
   * The size of the file system at /dev/shm.
   */
  MW_LIMIT_DEV_SHM = 4,
  /**
   * Free hugetlb pages of page_bytes.
   */
  MW_LIMIT_HUGE_PAGES = 5,
  /**
   * RLIMIT_MEMLOCK.
   */
  MW_LIMIT_MEMLOCK = 6,
  /**
   * A memory cgroup, named by cgroup.
   */
  MW_LIMIT_CGROUP = 7,
  /**
   * kernel.shmmax.
   */
  MW_LIMIT_SHMMAX = 8,
  /**
   * kernel.shmall.
   */
  MW_LIMIT_SHMALL = 9,
  /**
   * RLIMIT_AS, or the address space of the CPU.
   */
  MW_LIMIT_ADDRESS_SPACE = 10,
} mw_limit;

/**
 * The phase of an operation.
 */
typedef enum mw_phase {
  /**
   * Pages are allocated, zeroed and mapped.
   */
  MW_PHASE_CREATE = 1,
  /**
   * Every page is verified to be populated and locked.
   */
  MW_PHASE_CONFIRM = 2,
  /**
   * Pages are freed.
   */
  MW_PHASE_DESTROY = 3,
} mw_phase;

/**
 * Kinds of segments.
 */
typedef enum mw_kind {
  /**
   * No kind: that of a NULL segment.
   */
  MW_KIND_NONE = 0,
  /**
   * A System V segment, locked as a whole (SHM_LOCK) and populated when it is attached.
   */
  MW_KIND_ISM = 1,
  /**
   * A System V segment, locked by mlock(2) if at all.
   */
  MW_KIND_DISM = 2,
  /**
   * Several memfds mapped next to each other; the default.
   */
  MW_KIND_MEMFD = 3,
  /**
   * Private anonymous memory.
   */
  MW_KIND_ANON = 4,
  /**
   * As MW_KIND_MEMFD, of hugetlb pages: 2 MiB unless another size is requested.
   */
  MW_KIND_HUGETLB = 5,
  /**
   * POSIX shared memory with a name (shm_open(3)).
   */
  MW_KIND_POSIX = 6,
} mw_kind;

/**
 * Sizes of pages.
 */
typedef enum mw_page {
  /**
   * The largest that is available now, without compaction; the default. An existing segment has
   * one of the others.
   */
  MW_PAGE_AUTO = 0,
  /**
   * The base page: 4 KiB on x86.
   */
  MW_PAGE_BASE = 1,
  /**
   * Transparent huge pages.
   */
  MW_PAGE_THP = 2,
  /**
   * Hugetlb pages of 2 MiB.
   */
  MW_PAGE_2M = 3,
  /**
   * Hugetlb pages of 1 GiB.
   */
  MW_PAGE_1G = 4,
  /**
   * The largest folios or transparent huge pages that are free without compaction, mixed; base
   * pages where none are.
   */
  MW_PAGE_BEST = 5,
  /**
   * Folios (mTHP) of 16 KiB.
   */
  MW_PAGE_16K = 6,
  /**
   * Folios of 32 KiB.
   */
  MW_PAGE_32K = 7,
  /**
   * Folios of 64 KiB.
   */
  MW_PAGE_64K = 8,
  /**
   * Folios of 128 KiB.
   */
  MW_PAGE_128K = 9,
  /**
   * Folios of 256 KiB.
   */
  MW_PAGE_256K = 10,
  /**
   * Folios of 512 KiB.
   */
  MW_PAGE_512K = 11,
  /**
   * Folios of 1 MiB.
   */
  MW_PAGE_1M = 12,
} mw_page;

/**
 * Cancels the creation of segments from another thread or a signal handler. One token may serve
 * many operations and can be cancelled once; the next operation needs a new one.
 */
typedef struct mw_cancel mw_cancel;

/**
 * The reason why a segment could not be created or memory not be leased.
 */
typedef struct mw_error mw_error;

/**
 * Properties of a segment. Options can be used for any number of segments.
 *
 * A function that sets an option returns MW_OK, or MW_INVALID and changes nothing. The options
 * remember the first invalid value, and creating a segment then fails: a program may set all
 * options without checking each result, and only check mw_segment_create().
 */
typedef struct mw_options mw_options;

/**
 * Memory leased from a pool. It returns to the server when no process has it any more: forks of
 * this process have it too, until they detach it, end, or call exec.
 */
typedef struct mw_pool_memory mw_pool_memory;

/**
 * A segment of memory. Other processes may map it as well. It lasts until the segment is destroyed
 * and is zero until it is written.
 */
typedef struct mw_segment mw_segment;

/**
 * By how much a limit is too low. Owned by its error. Later versions may add members at the end.
 */
typedef struct mw_shortage {
  /**
   * The limit.
   */
  enum mw_limit limit;
  /**
   * An older name of requested_bytes.
   */
  uint64_t asked_bytes;
  /**
   * An older name of available_bytes.
   */
  uint64_t had_bytes;
  /**
   * Bytes that are missing: requested_bytes less available_bytes.
   */
  uint64_t missing_bytes;
  /**
   * The size of the missing huge pages; 0 for other limits.
   */
  uint64_t page_bytes;
  /**
   * The path of the memory cgroup; NULL for other limits.
   */
  const char *cgroup;
  /**
   * The remedy: a command, a setting or a limit to raise.
   */
  const char *remedy;
  /**
   * Bytes that the limit would have to allow.
   */
  uint64_t requested_bytes;
  /**
   * Bytes that the limit allows now.
   */
  uint64_t available_bytes;
} mw_shortage;

/**
 * The progress of an operation. Later versions may add members at the end.
 */
typedef struct mw_progress {
  /**
   * The phase. Each one counts from 0 bytes.
   */
  enum mw_phase phase;
  /**
   * Bytes of this phase that are completed.
   */
  size_t done_bytes;
  /**
   * Bytes of this phase in total.
   */
  size_t total_bytes;
  /**
   * Nanoseconds since the phase started.
   */
  uint64_t elapsed_ns;
  /**
   * Bytes per second since the phase started; 0 before anything is completed.
   */
  double bytes_per_s;
} mw_progress;

/**
 * Receives the progress of an operation, about twenty times a second, on the calling thread; not
 * called for an operation that ends sooner.
 *
 * progress: valid until the function returns.
 * user: the pointer that was passed along with the function.
 * Returns: 0 to continue; anything else cancels, and the function is not called again. Destruction
 * cannot be cancelled; the result is then ignored.
 *
 * The function must return: no longjmp(3), no exception, no end of the thread. It may call any
 * function of this library except those that free what the operation uses.
 */
typedef int (*mw_progress_fn)(const struct mw_progress *progress, void *user);

/**
 * Duration of each part of the creation. Owned by the segment. Later versions may add members at
 * the end.
 */
typedef struct mw_times {
  /**
   * Nanoseconds: checking limits, mapping, setting the memory policy and the lock.
   */
  uint64_t reserve_ns;
  /**
   * Nanoseconds: populating.
   */
  uint64_t populate_ns;
  /**
   * Nanoseconds: verifying that every page is populated and locked; 0 where the mapping is not
   * locked.
   */
  uint64_t confirm_ns;
  /**
   * An older name of workers.
   */
  size_t helpers;
  /**
   * Worker threads that populated it, the caller included.
   */
  size_t workers;
} mw_times;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the running library, such as "0.2.0", which may be newer than the header that a
 * program was compiled with (MW_VERSION).
 *
 * Returns: a static text.
 * Threads: may be called from any thread.
 */
const char *mw_version(void);

/**
 * A short text for a status. mw_error_text() has the details.
 *
 * status: an mw_status.
 * Returns: a static text, for any number.
 * Threads: may be called from any thread.
 */
const char *mw_status_text(int status);

/**
 * The name of a kind, as on memwright's command line: "ism", "memfd" and so on.
 *
 * kind: an mw_kind.
 * Returns: a static text; NULL for an invalid kind.
 * Threads: may be called from any thread.
 */
const char *mw_kind_name(int kind);

/**
 * The name of a page size, as on memwright's command line: "auto", "4k", "thp", "2M",
 * "1G", "best", "64k" and so on.
 *
 * page: an mw_page.
 * Returns: a static text; NULL for an invalid page size.
 * Threads: may be called from any thread.
 */
const char *mw_page_name(int page);

/**
 * The status of an error.
 *
 * error: an error; NULL is MW_OK.
 * Threads: may be called from any thread, since an error does not change.
 */
enum mw_status mw_error_status(const struct mw_error *error);

/**
 * The error as text, one line of UTF-8: what was requested, what was found, what to do.
 *
 * error: an error; the text of NULL is empty.
 * Returns: a text owned by the error and valid as long as it is.
 * Threads: as mw_error_status().
 */
const char *mw_error_text(const struct mw_error *error);

/**
 * The kernel's error number (errno(3)) of an MW_SYSTEM error.
 *
 * error: an error, or NULL.
 * Returns: the number; 0 for all other errors.
 * Threads: as mw_error_status().
 */
int mw_error_errno(const struct mw_error *error);

/**
 * The limit and the missing amount of an MW_SHORT error.
 *
 * error: an error, or NULL.
 * Returns: a shortage owned by the error and valid as long as it is; NULL for all other errors.
 * Threads: as mw_error_status().
 */
const struct mw_shortage *mw_error_shortage(const struct mw_error *error);

/**
 * Frees an error with its texts and its shortage.
 *
 * error: an error, which must not be used afterwards. NULL is ignored.
 * Threads: may be called from any thread while no other call uses this error.
 */
void mw_error_free(struct mw_error *error);

/**
 * Creates a token.
 *
 * Returns: a token, to be freed with mw_cancel_free(); NULL only after an internal error.
 * Threads: may be called from any thread.
 */
struct mw_cancel *mw_cancel_new(void);

/**
 * Cancels every current and future operation whose options have this token: it frees what it has
 * allocated and returns MW_CANCELLED within one chunk of work, which is about a millisecond, or
 * one page of 1 GiB.
 *
 * cancel: a token; NULL is ignored.
 * Threads: may be called from any thread, at any time, and from a signal handler.
 */
void mw_cancel_set(const struct mw_cancel *cancel);

/**
 * True if a token is cancelled.
 *
 * cancel: a token; NULL is not cancelled.
 * Threads: as mw_cancel_set().
 */
bool mw_cancel_is_set(const struct mw_cancel *cancel);

/**
 * Frees a token. Options and operations that have it keep what they need.
 *
 * cancel: a token, which must not be used afterwards. NULL is ignored.
 * Threads: may be called from any thread while no other call uses this token.
 */
void mw_cancel_free(struct mw_cancel *cancel);

/**
 * Creates the options of a memfd segment of the largest pages that are available now, not locked.
 *
 * bytes: the size of the segment, rounded up to whole pages when it is created; 0 is an error
 * then.
 * Returns: options, to be freed with mw_options_free(); NULL only after an internal error.
 * Threads: may be called from any thread.
 */
struct mw_options *mw_options_new(size_t bytes);

/**
 * Sets the kind of the segment.
 *
 * options: the options to change.
 * kind: an mw_kind.
 * Returns: MW_OK; MW_INVALID for NULL or an invalid kind.
 * Threads: may be called from any thread while no other call uses these options.
 */
enum mw_status mw_options_set_kind(struct mw_options *options, int kind);

/**
 * Sets the page size. A size that is not available is an error when the segment is created, unless
 * mw_options_set_lenient() was called.
 *
 * options: the options to change.
 * page: an mw_page.
 * Returns: MW_OK; MW_INVALID for NULL or an invalid page size.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_page(struct mw_options *options, int page);

/**
 * Sets whether smaller pages are acceptable where the requested size is not available;
 * mw_segment_page() returns the actual size. Default: no.
 *
 * options: the options to change.
 * lenient: 0 for no, any other value for yes.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_lenient(struct mw_options *options, int lenient);

/**
 * Sets whether the segment is locked in memory. MW_KIND_ISM always is; hugetlb pages need no lock.
 * Locking is subject to RLIMIT_MEMLOCK.
 *
 * options: the options to change.
 * locked: 0 for no, any other value for yes.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_locked(struct mw_options *options, int locked);

/**
 * Sets the maximum number of worker threads, the caller included. Default: 16. The CPUs that the
 * caller may use limit it as well.
 *
 * options: the options to change.
 * workers: a number of threads; 0 counts as 1.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_workers(struct mw_options *options, size_t workers);

/**
 * Sets the name of a segment of kind MW_KIND_POSIX (shm_open(3)); it must not exist when the
 * segment is created.
 *
 * options: the options to change.
 * name: a name in UTF-8, with or without the leading slash; it is copied.
 * Returns: MW_OK; MW_INVALID for NULL or a name that is not UTF-8.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_name(struct mw_options *options, const char *name);

/**
 * Sets the key of a segment of kind MW_KIND_ISM or MW_KIND_DISM (shmget(2)); it must not exist
 * when the segment is created.
 *
 * options: the options to change.
 * key: a key, for example of ftok(3); 0 (default) is none.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_key(struct mw_options *options, int32_t key);

/**
 * Sets whether a segment with a name or a key persists when it is destroyed or the program exits.
 * Default: no.
 *
 * options: the options to change.
 * kept: 0 for no, any other value for yes.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_kept(struct mw_options *options, int kept);

/**
 * Sets the token that cancels the creation of segments.
 *
 * options: the options to change.
 * cancel: a token, which may be freed at any time afterwards; NULL (default) for none.
 * Returns: MW_OK; MW_INVALID if options is NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_cancel(struct mw_options *options, const struct mw_cancel *cancel);

/**
 * Allocates pages by the memory policy of the caller of mw_segment_create() (set_mempolicy(2)),
 * which is normally the node that it runs on. This is the default. Replaces earlier calls of the
 * mw_options_place functions.
 *
 * options: the options to change.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_place_local(struct mw_options *options);

/**
 * Allocates pages only from these NUMA nodes. Replaces earlier calls of the mw_options_place
 * functions.
 *
 * options: the options to change.
 * nodes: numbers of nodes, as in /sys/devices/system/node; they are copied.
 * count: the number of nodes: 1 to 1024.
 * Returns: MW_OK; MW_INVALID for NULL or another count. A node that does not exist is an error
 * when the segment is created.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_place_bind(struct mw_options *options,
                                     const uint32_t *nodes,
                                     size_t count);

/**
 * Allocates pages from these NUMA nodes in turn, page by page. Replaces earlier calls of the
 * mw_options_place functions.
 *
 * options, nodes, count, Returns, Threads: as mw_options_place_bind().
 */
enum mw_status mw_options_place_interleave(struct mw_options *options,
                                           const uint32_t *nodes,
                                           size_t count);

/**
 * Allocates the pages of a range of the segment only from these NUMA nodes. Each call adds a
 * range; the rest is placed as by mw_options_place_local(). Replaces earlier calls of the other
 * mw_options_place functions.
 *
 * options: the options to change.
 * offset: the start of the range, in bytes from the start of the segment.
 * bytes: its length.
 * nodes: numbers of nodes, as in /sys/devices/system/node; they are copied.
 * count: the number of nodes: 1 to 1024.
 * Returns: MW_OK; MW_INVALID for NULL, another count, a range of 0 bytes or beyond SIZE_MAX, or
 * more than 4096 ranges. A range that is not of whole pages, ends beyond the segment or overlaps
 * another, or a node that does not exist, is an error when the segment is created.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_place_range(struct mw_options *options,
                                      size_t offset,
                                      size_t bytes,
                                      const uint32_t *nodes,
                                      size_t count);

/**
 * The first invalid value that was set, and the valid ones: why creating a segment fails.
 *
 * options: options, or NULL.
 * Returns: a text owned by the options and valid as long as they are; NULL if all values are valid.
 * Threads: may be called from any thread while no other call changes these options.
 */
const char *mw_options_refusal(const struct mw_options *options);

/**
 * Frees options. Segments that were created with them are not affected.
 *
 * options: options, which must not be used afterwards; NULL is ignored.
 * Threads: may be called from any thread while no other call uses these options.
 */
void mw_options_free(struct mw_options *options);

/**
 * Creates a segment: reserves, places, locks (if requested) and populates it, with several threads
 * that have ended when the call returns. All or nothing: after an error nothing is left behind.
 *
 * options: properties of the segment.
 * progress: is called with the progress and can cancel; may be NULL. To cancel, it sets the token
 * of the options, if they have one.
 * user: passed to progress.
 * segment: receives the segment, to be destroyed with mw_segment_destroy(); NULL on failure.
 * error: receives the error, to be freed with mw_error_free(); NULL on success. May be NULL.
 * Returns: MW_OK; MW_INVALID also if options or segment is NULL; else the status of the error.
 * Threads: may be called from any thread, also concurrently with the same options; concurrent
 * calls share the CPUs. No other call may change these options during the call.
 */
enum mw_status mw_segment_create(const struct mw_options *options,
                                 mw_progress_fn progress,
                                 void *user,
                                 struct mw_segment **segment,
                                 struct mw_error **error);

/**
 * The address of a segment: mw_segment_bytes() bytes can be read and written from there.
 *
 * segment: a segment, or NULL.
 * Returns: an address aligned to a page, valid until the segment is destroyed; NULL for NULL.
 * Threads: may be called from any thread while no other call destroys the segment. The program
 * synchronizes its own accesses to the memory.
 */
void *mw_segment_address(const struct mw_segment *segment);

/**
 * The size of a segment in bytes: the requested size, rounded up to whole pages.
 *
 * segment: a segment; NULL has 0.
 * Threads: as mw_segment_address().
 */
size_t mw_segment_bytes(const struct mw_segment *segment);

/**
 * The kind of a segment.
 *
 * segment: a segment; NULL has MW_KIND_NONE.
 * Threads: as mw_segment_address().
 */
enum mw_kind mw_segment_kind(const struct mw_segment *segment);

/**
 * The page size of a segment: the requested one, or a smaller one if the options were lenient.
 *
 * segment: a segment; NULL returns MW_PAGE_AUTO, which no segment has.
 * Threads: as mw_segment_address().
 */
enum mw_page mw_segment_page(const struct mw_segment *segment);

/**
 * True if a segment's pages stay in memory: locked, or hugetlb pages.
 *
 * segment: a segment; NULL is not locked.
 * Threads: as mw_segment_address().
 */
bool mw_segment_is_locked(const struct mw_segment *segment);

/**
 * Bytes of a segment that are in huge pages now, transparent or hugetlb.
 *
 * segment: a segment, or NULL.
 * bytes: receives the number; unchanged if it is unknown.
 * Returns: whether the number is known: from kernel 6.7 on.
 * Threads: as mw_segment_address().
 */
bool mw_segment_huge_bytes(const struct mw_segment *segment, size_t *bytes);

/**
 * The id of a System V segment, for shmat(2) in other processes.
 *
 * segment: a segment, or NULL.
 * Returns: the id; -1 for other kinds and NULL.
 * Threads: as mw_segment_address().
 */
int mw_segment_sysv_id(const struct mw_segment *segment);

/**
 * Number of files that back a segment, in the order of their bytes: a process that receives them all
 * (SCM_RIGHTS of unix(7)) can map the same memory.
 *
 * segment: a segment, or NULL.
 * Returns: the number; 0 for kinds without files and NULL.
 * Threads: as mw_segment_address().
 */
size_t mw_segment_stripes(const struct mw_segment *segment);

/**
 * The file descriptor of one of a segment's files. The file is emptied when the segment is
 * destroyed, for every process that maps it.
 *
 * segment: a segment, or NULL.
 * index: the file, from 0.
 * Returns: a file descriptor (close-on-exec) owned by the segment, which must not be closed; -1 if
 * there is no such file.
 * Threads: as mw_segment_address().
 */
int mw_segment_stripe_fd(const struct mw_segment *segment, size_t index);

/**
 * The size of one of a segment's files in bytes; together they make up the segment.
 *
 * segment: a segment, or NULL.
 * index: the file, from 0.
 * Returns: a number of bytes; 0 if there is no such file.
 * Threads: as mw_segment_address().
 */
size_t mw_segment_stripe_bytes(const struct mw_segment *segment, size_t index);

/**
 * Duration of each part of a segment's creation.
 *
 * segment: a segment, or NULL.
 * Returns: times owned by the segment and valid as long as it is; NULL for NULL.
 * Threads: as mw_segment_address().
 */
const struct mw_times *mw_segment_times(const struct mw_segment *segment);

/**
 * Destroys a segment: frees its memory with several threads that have ended when the call returns.
 * In a fork of the process that created it, only unmaps it in that fork.
 *
 * segment: a segment; neither it nor its memory may be used afterwards. NULL is ignored.
 * Threads: may be called from any thread while no other call uses this segment.
 */
void mw_segment_destroy(struct mw_segment *segment);

/**
 * As mw_segment_destroy(), with progress; returns how long it took.
 *
 * segment: as for mw_segment_destroy().
 * progress: is called with the progress; its result is ignored. May be NULL.
 * user: passed to progress.
 * Returns: nanoseconds; 0 for NULL.
 * Threads: as mw_segment_destroy().
 */
uint64_t mw_segment_destroy_with(struct mw_segment *segment, mw_progress_fn progress, void *user);

/**
 * Leases memory from a pool: mapped contiguously, populated, and locked as far as this process may
 * lock memory. All or nothing.
 *
 * socket: the server's socket; NULL for the default, /run/memwright-pool/pool.sock.
 * pool: the name of the pool. This text and the others are read only during the call.
 * bytes: the requested size, rounded up to whole stripes of the pool.
 * keep: a name under which the contents are kept when the memory is returned, and may have been
 * kept before by this user with this size: see mw_pool_is_kept(). NULL for zeroed memory that is
 * zeroed again.
 * wait_ns: how long to wait for memory that is being populated, zeroed or returned, and for a
 * server that restarts; 0 does not wait.
 * memory: receives the memory, to be returned with mw_pool_detach(); NULL on failure.
 * error: receives the error, to be freed with mw_error_free(); NULL on success. May be NULL.
 * Returns: MW_OK; MW_INVALID for NULL or an invalid name; MW_NO_SERVER, MW_REFUSED, MW_NOT_READY
 * or MW_SYSTEM.
 * Threads: may be called from any thread.
 */
enum mw_status mw_pool_attach(const char *socket,
                              const char *pool,
                              uint64_t bytes,
                              const char *keep,
                              uint64_t wait_ns,
                              struct mw_pool_memory **memory,
                              struct mw_error **error);

/**
 * The address of leased memory: mw_pool_bytes() bytes can be read and written from there.
 *
 * memory: leased memory, or NULL.
 * Returns: an address aligned to a huge page, valid until the memory is detached; NULL for NULL.
 * Threads: may be called from any thread while no other call detaches it.
 */
void *mw_pool_address(const struct mw_pool_memory *memory);

/**
 * The size of leased memory in bytes.
 *
 * memory: leased memory; 0 for NULL.
 * Threads: as mw_pool_address().
 */
size_t mw_pool_bytes(const struct mw_pool_memory *memory);

/**
 * True if the memory has contents that were kept; otherwise it is zeroed.
 *
 * memory: leased memory, or NULL.
 * generation: receives how often the contents were leased before; unchanged if none were kept. May
 * be NULL.
 * dirty: receives whether the contents were not marked consistent, as after a kill; unchanged if
 * none were kept. May be NULL.
 * Threads: as mw_pool_address().
 */
bool mw_pool_is_kept(const struct mw_pool_memory *memory, uint64_t *generation, bool *dirty);

/**
 * Marks the contents as consistent: without it, contents that are kept are reported as dirty when
 * they are leased again. It cannot be undone, so call it last.
 *
 * memory: leased memory, or NULL.
 * Returns: MW_OK; MW_INVALID for NULL; MW_SYSTEM if the server of this lease no longer exists.
 * Threads: as mw_pool_address().
 */
enum mw_status mw_pool_mark_consistent(const struct mw_pool_memory *memory);

/**
 * Detaches leased memory from this process. It returns to the server when every fork has detached
 * it too.
 *
 * memory: leased memory, which must not be used afterwards. NULL is ignored.
 * Threads: may be called from any thread while no other call uses this memory.
 */
void mw_pool_detach(struct mw_pool_memory *memory);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MEMWRIGHT_H */

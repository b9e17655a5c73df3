/*
 * memwright.h: large segments of memory, created, locked and destroyed in parallel, and memory of
 * a pool, which is there already.
 *
 * Generated from crates/mw-capi by 'cargo xtask docs'. License: Apache-2.0 OR MIT.
 *
 *     cc program.c $(pkg-config --cflags --libs memwright)
 *
 * What holds for every function:
 *
 * NULL and numbers without a meaning are refused, never followed. Enumerations are given as int.
 *
 * Sizes are in bytes and times in nanoseconds, as their names say.
 *
 * Who makes a handle frees it: mw_options_free(), mw_cancel_free(), mw_error_free(),
 * mw_segment_destroy(), mw_pool_detach(). Texts and structures that a function returns belong to
 * the handle they were got from. What is given to a function is copied.
 *
 * Functions may be called from any thread. One handle may be read by several threads at once;
 * changing and freeing it takes a thread that alone uses it. 'Threads' says what differs.
 *
 * A function does not change errno(3) to tell of an error, installs no signal handler, and leaves
 * no thread behind. After fork(2) a child may call all of them.
 */

#ifndef MEMWRIGHT_H
#define MEMWRIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The version of this header; mw_version() is that of the library. */
#define MW_VERSION "0.1.0"
#define MW_VERSION_MAJOR 0
#define MW_VERSION_MINOR 1
#define MW_VERSION_PATCH 0

/**
 * What a call came to.
 */
typedef enum mw_status {
  /**
   * It was done.
   */
  MW_OK = 0,
  /**
   * An argument is NULL or has no meaning, or options contradict each other or the machine.
   */
  MW_INVALID = 1,
  /**
   * A limit is below what was asked for: see mw_error_shortage().
   */
  MW_SHORT = 2,
  /**
   * It was cancelled.
   */
  MW_CANCELLED = 3,
  /**
   * This machine or this kind has no such pages.
   */
  MW_NO_SUCH_PAGES = 4,
  /**
   * Fewer transparent huge pages than asked for were to be had: memory is fragmented.
   */
  MW_FRAGMENTED = 5,
  /**
   * A page that the kernel handed out is broken hardware (EHWPOISON).
   */
  MW_POISONED = 6,
  /**
   * A system call failed for a reason that no limit explains: see mw_error_errno().
   */
  MW_SYSTEM = 7,
  /**
   * An error within the library: please report it, with the error's text.
   */
  MW_INTERNAL = 8,
  /**
   * No pool server answers.
   */
  MW_NO_SERVER = 9,
  /**
   * The pool server refused: there is no such pool, it is full or too small, or it is another's.
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
   * One that has no number in this version; the error's text names it.
   */
  MW_LIMIT_OTHER = 0,
  /**
   * Memory that the machine has available (MemAvailable).
   */
  MW_LIMIT_MEMORY = 1,
  /**
   * Memory of the nodes that the segment is placed on.
   */
  MW_LIMIT_NODE_MEMORY = 2,
  /**
   * What may be committed under strict overcommit (CommitLimit).
   */
  MW_LIMIT_COMMIT = 3,
  /**
   * The size of the file system at /dev/shm.
   */
  MW_LIMIT_DEV_SHM = 4,
  /**
   * Free pages of the pool of huge pages of page_bytes.
   */
  MW_LIMIT_HUGE_PAGES = 5,
  /**
   * RLIMIT_MEMLOCK.
   */
  MW_LIMIT_MEMLOCK = 6,
  /**
   * The memory cgroup that cgroup names.
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
   * RLIMIT_AS, or the processor's addresses.
   */
  MW_LIMIT_ADDRESS_SPACE = 10,
} mw_limit;

/**
 * What is being done.
 */
typedef enum mw_phase {
  /**
   * Pages are allocated, zeroed and mapped.
   */
  MW_PHASE_CREATE = 1,
  /**
   * Every page is seen to be there and locked.
   */
  MW_PHASE_CONFIRM = 2,
  /**
   * Pages are given back.
   */
  MW_PHASE_DESTROY = 3,
} mw_phase;

/**
 * Kinds of segments.
 */
typedef enum mw_kind {
  /**
   * No kind: what a segment that is NULL has.
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
   * Several memfds mapped side by side; the default.
   */
  MW_KIND_MEMFD = 3,
  /**
   * Private anonymous memory.
   */
  MW_KIND_ANON = 4,
  /**
   * As MW_KIND_MEMFD, of huge pages of the pool: 2 MiB unless another size is asked for.
   */
  MW_KIND_HUGETLB = 5,
  /**
   * POSIX shared memory under a name (shm_open(3)).
   */
  MW_KIND_POSIX = 6,
} mw_kind;

/**
 * Sizes of pages.
 */
typedef enum mw_page {
  /**
   * The largest that the machine can give at once, without compaction; the default. A segment
   * that is there has one of the others.
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
   * Huge pages of the pool, 2 MiB.
   */
  MW_PAGE_2M = 3,
  /**
   * Huge pages of the pool, 1 GiB.
   */
  MW_PAGE_1G = 4,
} mw_page;

/**
 * Cancels the creation of segments from another thread or a signal handler. One token may serve
 * many operations, and can be cancelled once; for the next operation make another.
 */
typedef struct mw_cancel mw_cancel;

/**
 * Why a segment could not be made, or memory of a pool not be had.
 */
typedef struct mw_error mw_error;

/**
 * What a segment is to be like. Options can be used for any number of segments.
 *
 * A function that sets an option returns MW_OK or MW_INVALID, and changes nothing in the second
 * case. The options remember that they refused something, and make no segment then: a program may
 * set all options without looking at what is returned, and look at mw_segment_create() alone.
 */
typedef struct mw_options mw_options;

/**
 * Memory of a pool. It goes back to its server when no process has it any more: forks of this one
 * have it too, until they detach it, end, or replace themselves by exec.
 */
typedef struct mw_pool_memory mw_pool_memory;

/**
 * A segment of memory. Its memory is shared with whoever else maps it, and lasts until the segment
 * is destroyed; what is read there is zero until something is written.
 */
typedef struct mw_segment mw_segment;

/**
 * How much a limit is short. It belongs to its error. Later versions may add members at the end.
 */
typedef struct mw_shortage {
  /**
   * Which limit.
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
   * The size of the huge pages that are missing; 0 for other limits.
   */
  uint64_t page_bytes;
  /**
   * The path of the memory cgroup; NULL for other limits.
   */
  const char *cgroup;
  /**
   * What would lift it: a command, a setting or a limit to raise.
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
 * How far an operation is. Later versions may add members at the end.
 */
typedef struct mw_progress {
  /**
   * What is being done. Each phase counts from 0 bytes.
   */
  enum mw_phase phase;
  /**
   * Bytes of this phase that are done.
   */
  size_t done_bytes;
  /**
   * Bytes of this phase.
   */
  size_t total_bytes;
  /**
   * Nanoseconds since the phase began.
   */
  uint64_t elapsed_ns;
  /**
   * Bytes a second since the phase began; 0 before anything is done.
   */
  double bytes_per_s;
} mw_progress;

/**
 * Is told how far an operation is, some twenty times a second and on the thread that called; an
 * operation that is over sooner tells nothing.
 *
 * progress: valid until the function returns.
 * user: what was given along with the function.
 * Returns: 0 to go on; anything else cancels, after which the function is not called again. Giving
 * back cannot be cancelled, and what is returned then is ignored.
 *
 * The function must return: it must not jump out (longjmp(3)), throw, or end the thread. It may
 * call any function of this library, but for those that free what the operation uses.
 */
typedef int (*mw_progress_fn)(const struct mw_progress *progress, void *user);

/**
 * How long the parts of a creation took. It belongs to its segment. Later versions may add members
 * at the end.
 */
typedef struct mw_times {
  /**
   * Nanoseconds: looking at limits, mapping, saying where pages come from and that they are
   * locked.
   */
  uint64_t reserve_ns;
  /**
   * Nanoseconds: populating.
   */
  uint64_t populate_ns;
  /**
   * Nanoseconds: seeing that every page is there and locked; 0 for what is not locked by
   * mapping.
   */
  uint64_t confirm_ns;
  /**
   * The threads that populated, the caller's included.
   */
  size_t helpers;
} mw_times;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library that is running, as "0.1.0", which may be newer than the header that
 * a program was compiled with (MW_VERSION).
 *
 * Returns: a text that lives as long as the program.
 * Threads: may be called from any.
 */
const char *mw_version(void);

/**
 * A few words on a status. The text of an error (mw_error_text()) says more.
 *
 * status: an mw_status.
 * Returns: a text that lives as long as the program, for any number.
 * Threads: may be called from any.
 */
const char *mw_status_text(int status);

/**
 * The name of a kind, as on memwright's command line: "ism", "memfd" and so on.
 *
 * kind: an mw_kind.
 * Returns: a text that lives as long as the program; NULL for a number that is none of a kind.
 * Threads: may be called from any.
 */
const char *mw_kind_name(int kind);

/**
 * The name of a page size, as on memwright's command line: "auto", "4k", "thp", "2M", "1G".
 *
 * page: an mw_page.
 * Returns: a text that lives as long as the program; NULL for a number that is none of a page
 * size.
 * Threads: may be called from any.
 */
const char *mw_page_name(int page);

/**
 * What kind of error it is.
 *
 * error: an error; NULL is MW_OK.
 * Threads: may be called from any, as the error does not change.
 */
enum mw_status mw_error_status(const struct mw_error *error);

/**
 * The error in words, on one line in UTF-8: what was asked for, what was found, what to do.
 *
 * error: an error; NULL has the empty text.
 * Returns: a text that belongs to the error and goes with it.
 * Threads: as mw_error_status().
 */
const char *mw_error_text(const struct mw_error *error);

/**
 * The kernel's error number, as in errno(3), of an error that is MW_SYSTEM.
 *
 * error: an error, or NULL.
 * Returns: the number; 0 for all other errors.
 * Threads: as mw_error_status().
 */
int mw_error_errno(const struct mw_error *error);

/**
 * Which limit was met, and how much is missing, of an error that is MW_SHORT.
 *
 * error: an error, or NULL.
 * Returns: a shortage that belongs to the error and goes with it; NULL for all other errors.
 * Threads: as mw_error_status().
 */
const struct mw_shortage *mw_error_shortage(const struct mw_error *error);

/**
 * Frees an error with its texts and its shortage.
 *
 * error: an error, which must not be used afterwards; NULL is ignored.
 * Threads: may be called from any, while no other call uses this error.
 */
void mw_error_free(struct mw_error *error);

/**
 * Makes a token that is not cancelled.
 *
 * Returns: a token to be freed with mw_cancel_free(); NULL only after an internal error.
 * Threads: may be called from any.
 */
struct mw_cancel *mw_cancel_new(void);

/**
 * Cancels every operation whose options were given this token, at once and from now on: they give
 * back what they have and return MW_CANCELLED, within one chunk of work: about a millisecond, or
 * one page where pages are of 1 GiB.
 *
 * cancel: a token; NULL is ignored.
 * Threads: may be called from any, at any time, and from a signal handler.
 */
void mw_cancel_set(const struct mw_cancel *cancel);

/**
 * Whether a token is cancelled.
 *
 * cancel: a token; NULL is not cancelled.
 * Threads: as mw_cancel_set().
 */
bool mw_cancel_is_set(const struct mw_cancel *cancel);

/**
 * Frees a token. Options and operations that were given it keep what they need of it.
 *
 * cancel: a token, which must not be used afterwards; NULL is ignored.
 * Threads: may be called from any, while no other call uses this token.
 */
void mw_cancel_free(struct mw_cancel *cancel);

/**
 * Makes options of a memfd segment of the largest pages that the machine can give at once, not
 * locked.
 *
 * bytes: the size of the segment, rounded up to whole pages when it is made; 0 is refused then.
 * Returns: options to be freed with mw_options_free(); NULL only after an internal error.
 * Threads: may be called from any.
 */
struct mw_options *mw_options_new(size_t bytes);

/**
 * Sets what the segment is made of.
 *
 * options: what is changed.
 * kind: an mw_kind.
 * Returns: MW_OK; MW_INVALID for NULL or a number that is none of a kind.
 * Threads: may be called from any, while no other call uses these options.
 */
enum mw_status mw_options_set_kind(struct mw_options *options, int kind);

/**
 * Sets the size of the segment's pages. A size that cannot be had is an error when the segment is
 * made, unless mw_options_set_lenient() was called.
 *
 * options: what is changed.
 * page: an mw_page.
 * Returns: MW_OK; MW_INVALID for NULL or a number that is none of a page size.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_page(struct mw_options *options, int page);

/**
 * Sets whether smaller pages will do where those asked for cannot be had; mw_segment_page() says
 * what it came to. At first they will not.
 *
 * options: what is changed.
 * lenient: 0 for no, anything else for yes.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_lenient(struct mw_options *options, int lenient);

/**
 * Sets whether the segment is locked in memory. MW_KIND_ISM always is; pages of the pool need no
 * lock. Locking is subject to RLIMIT_MEMLOCK.
 *
 * options: what is changed.
 * locked: 0 for no, anything else for yes.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_locked(struct mw_options *options, int locked);

/**
 * Sets the most threads that work on the segment, the caller's included: 16 at first. The
 * processors that the caller may use limit it as well.
 *
 * options: what is changed.
 * helpers: a number of threads; 0 counts as 1.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_helpers(struct mw_options *options, size_t helpers);

/**
 * Sets the name of a segment of kind MW_KIND_POSIX, for others to find it by (shm_open(3)); it
 * must not exist when the segment is made.
 *
 * options: what is changed.
 * name: a name in UTF-8, with or without the leading slash; it is copied.
 * Returns: MW_OK; MW_INVALID for NULL or a name that is not UTF-8.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_name(struct mw_options *options, const char *name);

/**
 * Sets the key of a segment of kind MW_KIND_ISM or MW_KIND_DISM, for others to find it by
 * (shmget(2)); it must not exist when the segment is made.
 *
 * options: what is changed.
 * key: a key as of ftok(3); 0 is none, as at first.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_key(struct mw_options *options, int32_t key);

/**
 * Sets whether a segment with a name or a key stays in memory when it is destroyed or the program
 * ends: at first it does not.
 *
 * options: what is changed.
 * kept: 0 for no, anything else for yes.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_kept(struct mw_options *options, int kept);

/**
 * Sets what cancels the creation of segments.
 *
 * options: what is changed.
 * cancel: a token, which may be freed at any time afterwards; NULL for none, as at first.
 * Returns: MW_OK; MW_INVALID if options is NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_set_cancel(struct mw_options *options, const struct mw_cancel *cancel);

/**
 * Takes pages from the node that the caller of mw_segment_create() runs on, or as its memory
 * policy says (set_mempolicy(2)): as it is at first. Replaces what was said of placing before.
 *
 * options: what is changed.
 * Returns: MW_OK; MW_INVALID for NULL.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_place_local(struct mw_options *options);

/**
 * Takes pages from these NUMA nodes alone. Replaces what was said of placing before.
 *
 * options: what is changed.
 * nodes: numbers of nodes, as in /sys/devices/system/node; they are copied.
 * count: how many numbers there are: 1 to 1024.
 * Returns: MW_OK; MW_INVALID for NULL or another count. A node that the machine does not have is
 * an error when the segment is made.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_place_bind(struct mw_options *options,
                                     const uint32_t *nodes,
                                     size_t count);

/**
 * Takes pages from these NUMA nodes in turn, page by page. Replaces what was said of placing
 * before.
 *
 * options, nodes, count, Returns, Threads: as mw_options_place_bind().
 */
enum mw_status mw_options_place_interleave(struct mw_options *options,
                                           const uint32_t *nodes,
                                           size_t count);

/**
 * Takes the pages of a range of the segment from these NUMA nodes alone. Each call adds a range;
 * what no range covers is placed as by mw_options_place_local(). Replaces what was said of placing
 * by the other functions before.
 *
 * options: what is changed.
 * offset: where the range begins, in bytes from the segment's start.
 * bytes: how long it is.
 * nodes: numbers of nodes, as in /sys/devices/system/node; they are copied.
 * count: how many numbers there are: 1 to 1024.
 * Returns: MW_OK; MW_INVALID for NULL, another count, a range of 0 bytes or beyond SIZE_MAX, or
 * more than 4096 ranges. A range that is not of whole pages, ends beyond the segment or overlaps
 * another, and a node that the machine does not have, are errors when the segment is made.
 * Threads: as mw_options_set_kind().
 */
enum mw_status mw_options_place_range(struct mw_options *options,
                                      size_t offset,
                                      size_t bytes,
                                      const uint32_t *nodes,
                                      size_t count);

/**
 * Why these options make no segment: what the first value that was refused was, and which would
 * not have been.
 *
 * options: options, or NULL.
 * Returns: a text that belongs to the options and goes with them; NULL if nothing was refused.
 * Threads: may be called from any, while no other call changes these options.
 */
const char *mw_options_refusal(const struct mw_options *options);

/**
 * Frees options. Segments that were made with them stay.
 *
 * options: options, which must not be used afterwards; NULL is ignored.
 * Threads: may be called from any, while no other call uses these options.
 */
void mw_options_free(struct mw_options *options);

/**
 * Creates a segment: reserved, placed, locked if wanted, and populated, by several threads, which
 * are gone when the call returns. All or nothing: after an error nothing is left behind.
 *
 * options: what the segment is to be like.
 * progress: is told how far it is, and can cancel; NULL for nobody. To cancel, it sets the token
 * of the options, if they have one.
 * user: what progress is called with.
 * segment: where the segment is put, to be destroyed with mw_segment_destroy(); NULL is put there
 * if it cannot be made.
 * error: where it is put why not, to be freed with mw_error_free(); NULL is put there if the
 * segment is made. May be NULL for who does not want to know.
 * Returns: MW_OK; MW_INVALID also if options or segment is NULL; else the status of the error.
 * Threads: may be called from any, several at a time also with the same options, which share the
 * processors; while no other call changes these options.
 */
enum mw_status mw_segment_create(const struct mw_options *options,
                                 mw_progress_fn progress,
                                 void *user,
                                 struct mw_segment **segment,
                                 struct mw_error **error);

/**
 * Where a segment's memory starts: as many bytes as mw_segment_bytes() says can be read and
 * written from there on.
 *
 * segment: a segment, or NULL.
 * Returns: an address that is aligned to whole pages and valid until the segment is destroyed;
 * NULL for NULL.
 * Threads: may be called from any, while no other call destroys the segment. Accesses to the
 * memory are the program's to put in order.
 */
void *mw_segment_address(const struct mw_segment *segment);

/**
 * The size of a segment in bytes: what was asked for, rounded up to whole pages.
 *
 * segment: a segment; NULL has 0.
 * Threads: as mw_segment_address().
 */
size_t mw_segment_bytes(const struct mw_segment *segment);

/**
 * What a segment is made of.
 *
 * segment: a segment; NULL has MW_KIND_NONE.
 * Threads: as mw_segment_address().
 */
enum mw_kind mw_segment_kind(const struct mw_segment *segment);

/**
 * The pages that a segment came to: those asked for, or smaller ones if the options were lenient.
 *
 * segment: a segment; NULL has MW_PAGE_AUTO, which no segment has.
 * Threads: as mw_segment_address().
 */
enum mw_page mw_segment_page(const struct mw_segment *segment);

/**
 * Whether a segment's pages stay in memory: locked, or of the pool of huge pages.
 *
 * segment: a segment; NULL is not locked.
 * Threads: as mw_segment_address().
 */
bool mw_segment_is_locked(const struct mw_segment *segment);

/**
 * How many bytes of a segment are in huge pages now, transparent or of the pool.
 *
 * segment: a segment, or NULL.
 * bytes: where the number is put; it is left alone if there is none.
 * Returns: whether there is a number: the kernel can say from version 6.7 on.
 * Threads: as mw_segment_address().
 */
bool mw_segment_huge_bytes(const struct mw_segment *segment, size_t *bytes);

/**
 * The number of a System V segment, for shmat(2) in other processes.
 *
 * segment: a segment, or NULL.
 * Returns: the number; -1 for other kinds and NULL.
 * Threads: as mw_segment_address().
 */
int mw_segment_sysv_id(const struct mw_segment *segment);

/**
 * How many files a segment is made of, side by side in the order of their bytes: others that get
 * them all (SCM_RIGHTS of unix(7)) can map the same memory.
 *
 * segment: a segment, or NULL.
 * Returns: the number; 0 for kinds without files and NULL.
 * Threads: as mw_segment_address().
 */
size_t mw_segment_stripes(const struct mw_segment *segment);

/**
 * The descriptor of one of a segment's files. Whoever maps it sees it emptied when the segment is
 * destroyed.
 *
 * segment: a segment, or NULL.
 * index: which file, from 0 on.
 * Returns: a descriptor, close-on-exec, that belongs to the segment and must not be closed; -1
 * where there is no such file.
 * Threads: as mw_segment_address().
 */
int mw_segment_stripe_fd(const struct mw_segment *segment, size_t index);

/**
 * The bytes of one of a segment's files; all together are the segment's.
 *
 * segment: a segment, or NULL.
 * index: which file, from 0 on.
 * Returns: a number of bytes; 0 where there is no such file.
 * Threads: as mw_segment_address().
 */
size_t mw_segment_stripe_bytes(const struct mw_segment *segment, size_t index);

/**
 * How long the parts of a segment's creation took.
 *
 * segment: a segment, or NULL.
 * Returns: times that belong to the segment and go with it; NULL for NULL.
 * Threads: as mw_segment_address().
 */
const struct mw_times *mw_segment_times(const struct mw_segment *segment);

/**
 * Destroys a segment: gives its memory back, by several threads, which are gone when the call
 * returns. In a fork of the process that made it, takes it out of that fork only.
 *
 * segment: a segment, which must not be used afterwards, nor must its memory; NULL is ignored.
 * Threads: may be called from any, while no other call uses this segment.
 */
void mw_segment_destroy(struct mw_segment *segment);

/**
 * As mw_segment_destroy(), and tells how far it is and how long it took.
 *
 * segment: as there.
 * progress: is told how far it is; what it returns is ignored. NULL for nobody.
 * user: what progress is called with.
 * Returns: nanoseconds; 0 for NULL.
 * Threads: as there.
 */
uint64_t mw_segment_destroy_with(struct mw_segment *segment, mw_progress_fn progress, void *user);

/**
 * Takes memory of a pool, mapped in one piece, with every page in place, and locked in memory as
 * far as this process may. All or nothing.
 *
 * socket: the server's socket; NULL for where it usually is, /run/memwright-pool/pool.sock.
 * pool: the name of the pool. This text and the others are read during the call alone.
 * bytes: how much; rounded up to what the pool is made of.
 * keep: a name under which the contents are kept when the memory goes back, and may have been
 * kept before, by this user and of this size: see mw_pool_is_kept(). NULL for memory that is zero
 * now, and zeroed again.
 * wait_ns: how long to wait for memory that is being populated, zeroed or given back, and for a
 * server that is started again; 0 does not wait.
 * memory: where it is put, to be given back with mw_pool_detach(); NULL is put there if it cannot
 * be had.
 * error: where it is put why not, to be freed with mw_error_free(); NULL is put there if it can.
 * May be NULL for who does not want to know.
 * Returns: MW_OK; MW_INVALID for what is NULL or no name; MW_NO_SERVER, MW_REFUSED, MW_NOT_READY
 * or MW_SYSTEM.
 * Threads: may be called from any.
 */
enum mw_status mw_pool_attach(const char *socket,
                              const char *pool,
                              uint64_t bytes,
                              const char *keep,
                              uint64_t wait_ns,
                              struct mw_pool_memory **memory,
                              struct mw_error **error);

/**
 * Where memory of a pool starts: as many bytes as mw_pool_bytes() says can be read and written
 * from there on.
 *
 * memory: memory of a pool, or NULL.
 * Returns: an address that is aligned to huge pages and valid until the memory is detached; NULL
 * for NULL.
 * Threads: may be called from any, while no other call detaches it.
 */
void *mw_pool_address(const struct mw_pool_memory *memory);

/**
 * The size of memory of a pool in bytes.
 *
 * memory: memory of a pool; NULL has 0.
 * Threads: as mw_pool_address().
 */
size_t mw_pool_bytes(const struct mw_pool_memory *memory);

/**
 * Whether memory came with contents that were kept; otherwise it came zeroed.
 *
 * memory: memory of a pool, or NULL.
 * generation: where it is put how often they were handed out before; left alone if none were
 * kept. May be NULL.
 * dirty: where it is put whether nobody had called them consistent, as after a kill; left alone
 * if none were kept. May be NULL.
 * Threads: as mw_pool_address().
 */
bool mw_pool_is_kept(const struct mw_pool_memory *memory, uint64_t *generation, bool *dirty);

/**
 * Says that the contents may be used after this process: without it, contents that are kept are
 * called dirty when they are handed out again. It holds for good, so that it is said last.
 *
 * memory: memory of a pool, or NULL.
 * Returns: MW_OK; MW_INVALID for NULL; MW_SYSTEM where the server that gave it is gone for good.
 * Threads: as mw_pool_address().
 */
enum mw_status mw_pool_mark_consistent(const struct mw_pool_memory *memory);

/**
 * Gives memory back, in this process: its server has it again when every fork has let go as well.
 *
 * memory: memory of a pool, which must not be used afterwards; NULL is ignored.
 * Threads: may be called from any, while no other call uses this memory.
 */
void mw_pool_detach(struct mw_pool_memory *memory);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MEMWRIGHT_H */

/*
 * Creates a segment, uses it and destroys it:
 *
 *     cc segment.c $(pkg-config --cflags --libs memwright) -o segment
 *     ./segment 4G memfd
 */

#include <memwright.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* Parses a number with an optional suffix K, M or G; returns 0 if it is invalid. */
static size_t parse_size(const char *text)
{
    char *end = NULL;
    unsigned long long number = strtoull(text, &end, 10);
    unsigned shift = 0;

    switch (*end) {
    case 'K': shift = 10; end++; break;
    case 'M': shift = 20; end++; break;
    case 'G': shift = 30; end++; break;
    default: break;
    }
    if (*end != '\0' || number > SIZE_MAX >> shift)
        return 0;
    return (size_t)number << shift;
}

/* Returns the kind of this name, or MW_KIND_NONE. */
static int parse_kind(const char *text)
{
    for (int kind = MW_KIND_ISM; mw_kind_name(kind) != NULL; kind++) {
        if (strcmp(mw_kind_name(kind), text) == 0)
            return kind;
    }
    return MW_KIND_NONE;
}

static void show_usage(void)
{
    fprintf(stderr, "usage: segment [SIZE[K|M|G] [");
    for (int kind = MW_KIND_ISM; mw_kind_name(kind) != NULL; kind++)
        fprintf(stderr, "%s%s", kind == MW_KIND_ISM ? "" : "|", mw_kind_name(kind));
    fprintf(stderr, "]]\n");
}

static int show_progress(const mw_progress *progress, void *user)
{
    (void)user;
    fprintf(stderr, "phase %d: %zu of %zu MiB, %.0f MiB/s\n", (int)progress->phase,
            progress->done_bytes / MIB, progress->total_bytes / MIB,
            progress->bytes_per_s / (double)MIB);
    return 0;
}

static void show_error(const mw_error *error)
{
    const mw_shortage *shortage = mw_error_shortage(error);

    fprintf(stderr, "segment: %s\n", mw_error_text(error));
    if (shortage != NULL) {
        fprintf(stderr, "  requested %" PRIu64 " MiB\n", shortage->requested_bytes / MIB);
        fprintf(stderr, "  available %" PRIu64 " MiB\n", shortage->available_bytes / MIB);
        fprintf(stderr, "  missing   %" PRIu64 " MiB\n", shortage->missing_bytes / MIB);
        fprintf(stderr, "  remedy    %s\n", shortage->remedy);
    }
}

/* Writes a number to every MiB and verifies them. */
static int use(const mw_segment *segment)
{
    unsigned char *memory = mw_segment_address(segment);
    size_t bytes = mw_segment_bytes(segment);

    for (size_t offset = 0; offset < bytes; offset += MIB) {
        if (memory[offset] != 0)
            return 0;
        memory[offset] = (unsigned char)(offset / MIB % 251 + 1);
    }
    for (size_t offset = 0; offset < bytes; offset += MIB) {
        if (memory[offset] != (unsigned char)(offset / MIB % 251 + 1))
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? parse_size(argv[1]) : 256 * MIB;
    int kind = argc > 2 ? parse_kind(argv[2]) : MW_KIND_MEMFD;
    mw_options *options;
    mw_segment *segment = NULL;
    mw_error *error = NULL;
    int used;

    if (bytes == 0 || kind == MW_KIND_NONE) {
        show_usage();
        return 2;
    }

    /* mw_segment_create() reports an invalid option. */
    options = mw_options_new(bytes);
    mw_options_set_kind(options, kind);
    if (kind == MW_KIND_POSIX)
        mw_options_set_name(options, "memwright-example");
    mw_segment_create(options, show_progress, NULL, &segment, &error);
    mw_options_free(options);
    if (segment == NULL) {
        show_error(error);
        mw_error_free(error);
        return EXIT_FAILURE;
    }

    printf("%zu MiB of kind %s in pages %s at %p, populated by %zu threads in %" PRIu64 " ms\n",
           mw_segment_bytes(segment) / MIB, mw_kind_name(mw_segment_kind(segment)),
           mw_page_name(mw_segment_page(segment)), mw_segment_address(segment),
           mw_segment_times(segment)->workers, mw_segment_times(segment)->populate_ns / 1000000);
    used = use(segment);
    printf("%s\n", used ? "written and verified" : "wrong data");
    printf("freed in %" PRIu64 " ms\n",
           mw_segment_destroy_with(segment, show_progress, NULL) / 1000000);
    return used ? EXIT_SUCCESS : EXIT_FAILURE;
}

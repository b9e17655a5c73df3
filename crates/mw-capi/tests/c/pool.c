/* Memory of a pool: attached, detached, kept and refused. */

#include <memwright.h>

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static mw_pool_memory *attach(const char *socket, const char *keep)
{
    mw_pool_memory *memory = NULL;
    mw_error *error = NULL;
    mw_status status = mw_pool_attach(socket, "db", 8 * MIB, keep, 60 * SECOND, &memory, &error);

    if (status != MW_OK)
        fprintf(stderr, "%s\n", mw_error_text(error));
    CHECK(status == MW_OK && error == NULL && memory != NULL);
    CHECK(mw_pool_bytes(memory) == 8 * MIB);
    return memory;
}

static void expect(mw_status wanted, const char *socket, const char *pool, size_t bytes)
{
    mw_pool_memory *memory = NULL;
    mw_error *error = NULL;

    CHECK(mw_pool_attach(socket, pool, bytes, NULL, 0, &memory, &error) == wanted);
    CHECK(memory == NULL && error != NULL && mw_error_status(error) == wanted);
    CHECK(strlen(mw_error_text(error)) > 0);
    mw_error_free(error);
}

static void check_refusals(const char *socket)
{
    expect(MW_INVALID, socket, NULL, MIB);
    expect(MW_INVALID, socket, "a b", MIB);
    expect(MW_REFUSED, socket, "nobody", MIB);
    expect(MW_REFUSED, socket, "db", 1024 * MIB);
    expect(MW_NO_SERVER, "/nowhere", "db", MIB);
    CHECK(mw_pool_attach(socket, "db", MIB, NULL, 0, NULL, NULL) == MW_INVALID);
    CHECK(mw_pool_address(NULL) == NULL && mw_pool_bytes(NULL) == 0);
    CHECK(!mw_pool_is_kept(NULL, NULL, NULL));
    CHECK(mw_pool_mark_consistent(NULL) == MW_INVALID);
    mw_pool_detach(NULL);
}

/* A fork keeps the memory after its parent has detached it. */
static void check_fork(const char *socket)
{
    mw_pool_memory *memory = attach(socket, NULL);
    char *bytes = mw_pool_address(memory);
    int ends[2];
    pid_t child;

    CHECK(bytes[0] == 0);
    bytes[0] = 7;
    CHECK(pipe(ends) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char word;

        /* As a daemon does: closes all descriptors and keeps the mapping. */
        CHECK(dup2(ends[0], 0) == 0);
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        CHECK(read(0, &word, 1) == 1);
        _exit(bytes[0] == 7 && bytes[8 * MIB - 1] == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    mw_pool_detach(memory);
    sleep(1);
    expect(MW_REFUSED, socket, "db", 8 * MIB);
    CHECK(write(ends[1], "x", 1) == 1);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    memory = attach(socket, NULL);
    bytes = mw_pool_address(memory);
    CHECK(bytes[0] == 0);
    mw_pool_detach(memory);
}

static void check_kept(const char *socket)
{
    mw_pool_memory *memory = attach(socket, "cache");
    uint64_t generation = 0;
    bool dirty = false;

    CHECK(!mw_pool_is_kept(memory, &generation, &dirty));
    strcpy(mw_pool_address(memory), "warm");
    mw_pool_detach(memory);
    memory = attach(socket, "cache");
    CHECK(mw_pool_is_kept(memory, &generation, &dirty) && generation == 1 && dirty);
    CHECK(mw_pool_mark_consistent(memory) == MW_OK);
    mw_pool_detach(memory);
    memory = attach(socket, "cache");
    CHECK(mw_pool_is_kept(memory, &generation, &dirty) && generation == 2 && !dirty);
    CHECK(strcmp(mw_pool_address(memory), "warm") == 0);
    mw_pool_detach(memory);
}

int main(int count, char **args)
{
    CHECK(count == 2);
    check_refusals(args[1]);
    check_fork(args[1]);
    check_kept(args[1]);
    puts("attached, detached, kept and refused");
    return EXIT_SUCCESS;
}

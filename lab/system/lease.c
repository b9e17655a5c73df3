/*
 * lease: maps SIZE_MIB of shared memory and keeps it: a database under `memwright run --pool`.
 *
 *   lease SIZE_MIB
 *
 * Every word has its own contents. Prints "ready", and after each SIGUSR1 whether all words are "intact" or "changed".
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static uint64_t word(size_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ULL;
}

int main(int argc, char **argv)
{
	size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) << 20;
	size_t words = bytes / sizeof(uint64_t), i;
	sigset_t signals;
	uint64_t *memory;
	int signal;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (i = 0; i < words; i++)
		memory[i] = word(i);
	setlinebuf(stdout);
	puts("ready");
	while (!sigwait(&signals, &signal)) {
		for (i = 0; i < words && memory[i] == word(i); i++)
			;
		puts(i == words ? "intact" : "changed");
	}
	return 1;
}

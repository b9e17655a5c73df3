/* Computes for so many milliseconds of CPU time, on machines of any speed: spin MS */
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
	long ms = argc > 1 ? atol(argv[1]) : 0;
	struct timespec used;

	do {
		for (volatile int turn = 0; turn < 100000; turn++)
			;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	} while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < ms);
	return 0;
}

/*
 * took: says how long a command takes, as a line for measure.sh.
 *
 *   took [-n TIMES] NAME COMMAND...
 *
 * prints `NAME SECONDS s` and returns what the command returns. Of several times the shortest is
 * printed: whatever else runs on the host can only make it longer. The command's own output goes to
 * standard error, so that it is no measurement.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* What the command returns, as a shell says it. */
static int run(char **command)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		dup2(2, 1);
		execvp(*command, command);
		perror(*command);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0) {
		perror("took");
		return 1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	double from, took, shortest = 0;
	int times = 1, code = 0;

	if (argc > 2 && !strcmp(argv[1], "-n")) {
		times = atoi(argv[2]);
		argc -= 2;
		argv += 2;
	}
	if (argc < 3 || times < 1) {
		fprintf(stderr, "usage: took [-n TIMES] NAME COMMAND...\n");
		return 2;
	}
	for (int i = 0; i < times && !code; i++) {
		from = now();
		code = run(argv + 2);
		took = now() - from;
		if (i == 0 || took < shortest)
			shortest = took;
	}
	printf("%s %.4f s\n", argv[1], shortest);
	return code;
}

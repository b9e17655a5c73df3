/*
 * took: says how long a command takes, as a line for measure.sh.
 *
 *   took NAME COMMAND...
 *
 * prints `NAME SECONDS s` and returns what the command returns. The command's own output goes to
 * standard error, so that it is no measurement.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec from, to;
	int status;
	pid_t child;

	if (argc < 3) {
		fprintf(stderr, "usage: took NAME COMMAND...\n");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &from);
	child = fork();
	if (child == 0) {
		dup2(2, 1);
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0) {
		perror("took");
		return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%s %.4f s\n", argv[1],
	       (to.tv_sec - from.tv_sec) + (to.tv_nsec - from.tv_nsec) / 1e9);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

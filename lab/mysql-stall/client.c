/*
 * client: two clients of a redis server, one that stores values, and one that waits for answers.
 *
 *   client SOCKET VALUES MIB
 *
 * The first stores VALUES values of MIB each, for which the server needs new memory; as soon as it has sent
 * one, the second sends PING. Prints how long the answers to PING took, in the middle and at worst.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MS 5
#define VALUES_MAX 1000
#define TRIES_MAX 200
#define TRY_MS 50

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

/* A server that has just been started takes a moment until it listens. */
static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int server = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(address.sun_path, path, sizeof address.sun_path - 1);
	for (int i = 0; i < TRIES_MAX; i++) {
		if (!connect(server, (struct sockaddr *)&address, sizeof address))
			return server;
		usleep(TRY_MS * 1000);
	}
	perror(path);
	exit(1);
}

static void fail(const char *what, const char *said)
{
	fprintf(stderr, "client: %s: the server said \"%s\"\n", what, said);
	exit(1);
}

static void send_to(int server, const char *command)
{
	ssize_t length = strlen(command);

	if (write(server, command, length) != length)
		fail(command, "");
}

/* An answer is one line. */
static void receive(int server)
{
	char answer[256] = "";

	if (read(server, answer, sizeof answer - 1) <= 0 || *answer == '-')
		fail("no answer", answer);
}

/* Stores a value; how long another client waits meanwhile. A value is made by its last byte: the server fills
 * what is before that with zeros. */
static double wait_beside(int storing, int waiting, int number, long mib)
{
	char command[128];
	double from, took_ms;

	snprintf(command, sizeof command, "SETRANGE value:%d %ld x\r\n", number, (mib << 20) - 1);
	send_to(storing, command);
	from = now_ms();
	send_to(waiting, "PING\r\n");
	receive(waiting);
	took_ms = now_ms() - from;
	receive(storing);
	usleep(PAUSE_MS * 1000);
	return took_ms;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static double answer_ms[VALUES_MAX];
	int storing, waiting, values;

	if (argc != 4 || atoi(argv[2]) < 1 || atoi(argv[2]) > VALUES_MAX) {
		fprintf(stderr, "usage: client SOCKET VALUES MIB\n");
		return 2;
	}
	storing = connect_to(argv[1]);
	waiting = connect_to(argv[1]);
	values = atoi(argv[2]);
	/* The server's first steps take longer than all that follow. */
	wait_beside(storing, waiting, values, 1);
	for (int i = 0; i < values; i++)
		answer_ms[i] = wait_beside(storing, waiting, i, atol(argv[3]));
	qsort(answer_ms, values, sizeof *answer_ms, by_size);
	printf("median %.1f ms\nworst %.1f ms\n", answer_ms[values / 2], answer_ms[values - 1]);
	return 0;
}

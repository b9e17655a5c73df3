/*
 * server: a web server on port 80 with a worker that maps much memory, as a service manager has a service.
 *
 *   server MIB
 *
 * GET /restart ends the worker, waits for its end as a service manager does, and starts another. GET /lock waits for
 * the lock of /run/lock. All requests are answered one after another.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE (16 << 20)

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Many pages of few megabytes: one file, mapped over and over. Each has an entry in a page table to be cleared. */
static void map(long mib)
{
	int file = memfd_create("worker", 0);

	/* To become large must not hold up others. */
	setpriority(PRIO_PROCESS, 0, 19);
	if (file < 0 || ftruncate(file, PIECE))
		die("memfd");
	for (long i = 0; i < mib; i += PIECE >> 20)
		if (mmap(NULL, PIECE, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0) == MAP_FAILED)
			die("mmap");
	setpriority(PRIO_PROCESS, 0, 0);
}

static pid_t start(long mib, int listener)
{
	pid_t worker = fork();

	if (worker)
		return worker;
	close(listener);
	map(mib);
	pause();
	_exit(0);
}

static void wait_for_lock(void)
{
	int file = open("/run/lock", O_RDWR | O_CREAT, 0644);

	if (file < 0 || flock(file, LOCK_EX))
		die("/run/lock");
	close(file);
}

int main(int argc, char **argv)
{
	static const char answer[] = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(80) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
	long mib = argc == 2 ? atol(argv[1]) : 0;
	pid_t worker;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (!mib || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
		die("server");
	worker = start(mib, listener);
	for (;;) {
		char request[1024] = "";
		int client = accept(listener, NULL, NULL);

		if (client < 0)
			continue;
		if (recv(client, request, sizeof request - 1, 0) > 0) {
			if (!strncmp(request, "GET /restart", 12)) {
				kill(worker, SIGKILL);
				waitpid(worker, NULL, 0);
				worker = start(mib, listener);
			} else if (!strncmp(request, "GET /lock", 9)) {
				wait_for_lock();
			}
			send(client, answer, sizeof answer - 1, MSG_NOSIGNAL);
		}
		close(client);
	}
}

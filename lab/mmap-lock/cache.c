/*
 * cache: a web server on port 80 that keeps a hash table in memory of its own.
 *
 *   cache MIB
 *
 * Its threads answer requests, each with a buffer that it maps and unmaps. GET /grow has another thread copy the table of
 * MIB to a table twice as large and unmap the old one, as a hash map does that is full. GET /small does so with a table
 * of 1 MiB.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS 16
#define BUFFER (1 << 20)
#define PAGE 4096

static int listener;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static char *map(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	return memory;
}

static char *filled(size_t bytes)
{
	char *table = map(bytes);

	for (size_t at = 0; at < bytes; at += PAGE)
		table[at] = 1;
	return table;
}

/* The pages of the old table are freed under mmap_lock, for which all threads wait that map memory. */
static __attribute__((noinline)) void free_table(char *table, size_t bytes)
{
	munmap(table, bytes);
}

/* A table that is full is copied to one twice as large; copying needs no lock. */
static __attribute__((noinline)) char *grow_table(char *table, size_t bytes)
{
	char *larger = filled(bytes);

	free_table(table, bytes);
	return larger;
}

static void *grow(void *mib)
{
	size_t bytes = (size_t)mib << 20;
	char *table = filled(bytes);

	table = grow_table(table, bytes);
	free_table(table, bytes);
	return NULL;
}

static void start(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, argument))
		die("pthread_create");
	pthread_detach(thread);
}

static __attribute__((noinline)) void answer(int client)
{
	static const char reply[] = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
	char *buffer = map(BUFFER);

	buffer[0] = 1;
	munmap(buffer, BUFFER);
	send(client, reply, sizeof reply - 1, MSG_NOSIGNAL);
}

static void *serve(void *mib)
{
	for (;;) {
		char request[1024] = "";
		int client = accept(listener, NULL, NULL);

		if (client < 0)
			continue;
		if (recv(client, request, sizeof request - 1, 0) > 0) {
			if (!strncmp(request, "GET /grow", 9))
				start(grow, mib);
			else if (!strncmp(request, "GET /small", 10))
				start(grow, (void *)1);
			answer(client);
		}
		close(client);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(80) };
	long mib = argc == 2 ? atol(argv[1]) : 0;
	int yes = 1;

	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (!mib || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
		die("cache");
	for (int i = 1; i < THREADS; i++)
		start(serve, (void *)mib);
	serve((void *)mib);
}

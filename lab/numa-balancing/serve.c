/*
 * serve PORT MIB: a web server that writes to all of its memory for each answer, one request after another. Where
 * /run/sleep exists it sleeps once for two seconds instead, and removes it; on port 80 only.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAGE 4096
#define PASSES 1

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void use(volatile char *memory, size_t bytes)
{
	for (int pass = 0; pass < PASSES; pass++)
		for (size_t at = 0; at < bytes; at += PAGE)
			memory[at]++;
}

int main(int argc, char **argv)
{
	static const char answer[] = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
	int port = argc == 3 ? atoi(argv[1]) : 0, yes = 1;
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	size_t bytes = argc == 3 ? strtoul(argv[2], NULL, 10) << 20 : 0;
	char *memory;

	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("mmap");
	use(memory, bytes);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
		die("serve");
	for (;;) {
		char request[1024];
		int client = accept(listener, NULL, NULL);

		if (client < 0)
			continue;
		if (recv(client, request, sizeof request, 0) > 0) {
			if (port == 80 && !unlink("/run/sleep"))
				sleep(2);
			else
				use(memory, bytes);
			send(client, answer, sizeof answer - 1, MSG_NOSIGNAL);
		}
		close(client);
	}
}

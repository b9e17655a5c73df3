/*
 * serve FILE: a web server on port 80 that reads a file for each answer, one request after another. Where /run/direct
 * exists it reads past the page cache.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE (64 << 10)

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void read_all(const char *name, void *piece)
{
	int flags = access("/run/direct", F_OK) ? O_RDONLY : O_RDONLY | O_DIRECT;
	int file = open(name, flags);

	if (file < 0)
		die(name);
	while (read(file, piece, PIECE) > 0)
		;
	close(file);
}

int main(int argc, char **argv)
{
	static const char answer[] = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(80) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
	void *piece = aligned_alloc(4096, PIECE);

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (argc != 2 || !piece || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
		die("serve");
	for (;;) {
		char request[1024];
		int client = accept(listener, NULL, NULL);

		if (client < 0)
			continue;
		if (recv(client, request, sizeof request, 0) > 0) {
			read_all(argv[1], piece);
			send(client, answer, sizeof answer - 1, MSG_NOSIGNAL);
		}
		close(client);
	}
}

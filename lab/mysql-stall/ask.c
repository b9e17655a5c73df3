/*
 * ask: asks the redis server whether it is there, as the recorder's probe.
 *
 *   ask SOCKET
 *
 * Returns when it has answered; at once where there is no server, between two measurements.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int server = socket(AF_UNIX, SOCK_STREAM, 0);
	char answer[64];

	if (argc != 2) {
		fprintf(stderr, "usage: ask SOCKET\n");
		return 2;
	}
	strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
	if (connect(server, (struct sockaddr *)&address, sizeof address))
		return 0;
	if (write(server, "PING\r\n", 6) != 6)
		return 0;
	return read(server, answer, sizeof answer) < 0;
}

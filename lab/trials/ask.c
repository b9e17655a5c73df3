/*
 * ask: a client of a service, independent of the recorder's probes.
 *
 *   ask PROTOCOL PORT REQUEST          one request on a connection of its own: an `exec:` probe
 *   ask -c LOG PROTOCOL PORT REQUEST   a request every 100 ms until SIGTERM
 *   ask -h SECONDS PROTOCOL PORT REQUEST...    requests on one connection, which is then held open
 *
 * PROTOCOL is http, redis, pg or mysql; the service is on 127.0.0.1, and knows no password. The user of mysql is
 * $MYSQL_USER, else trial. REQUEST is read from FILE where it is @FILE. A line of LOG is `START_MS TOOK_MS RESULT`,
 * with the start in milliseconds since 1970, and `ok` or the reason of a failure.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_MS 100
#define TIMEOUT_S 60
#define PACKET_MAX (1 << 20)

static const char *protocol, *why;
/* What the service said itself. */
static char said[256];
static int port;
static volatile sig_atomic_t stopped;
static unsigned char packet[PACKET_MAX];

static double now_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int fail(const char *reason)
{
	why = reason;
	return -1;
}

static int io_error(void)
{
	return fail(errno == EAGAIN ? "timed-out" : errno == ECONNREFUSED ? "refused" : "reset");
}

static int send_all(int to, const void *data, size_t size)
{
	return send(to, data, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : io_error();
}

static int receive_all(int from, void *data, size_t size)
{
	for (size_t got = 0; got < size;) {
		ssize_t more = recv(from, (char *)data + got, size - got, 0);

		if (more == 0)
			return fail("closed");
		if (more < 0)
			return io_error();
		got += more;
	}
	return 0;
}

static int http(int to, const char *request)
{
	char text[512], answer[4096];
	int length = snprintf(text, sizeof text, "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n", request);
	ssize_t got, more;

	if (send_all(to, text, length))
		return -1;
	for (got = 0; got < (ssize_t)sizeof answer - 1; got += more) {
		more = recv(to, answer + got, sizeof answer - 1 - got, 0);
		if (more < 0)
			return io_error();
		if (more == 0)
			break;
	}
	answer[got] = 0;
	if (got < 12 || strncmp(answer, "HTTP/1.", 7))
		return fail("malformed");
	return answer[9] == '2' ? 0 : fail("http-status");
}

static int redis(int to, const char *request)
{
	char text[1024], answer[4096];
	int length = snprintf(text, sizeof text, "%s\r\n", request);
	ssize_t got;

	if (send_all(to, text, length))
		return -1;
	got = recv(to, answer, sizeof answer, 0);
	if (got <= 0)
		return got ? io_error() : fail("closed");
	if (*answer != '-')
		return 0;
	snprintf(said, sizeof said, "%.*s", (int)got, answer);
	said[strcspn(said, "\r\n")] = 0;
	return fail("service-error");
}

/* The text of an error: strings, each behind a letter for what it is. */
static void pg_said(const char *part, size_t length)
{
	for (const char *end = part + length; part < end && *part; part += strnlen(part, end - part) + 1)
		if (*part == 'M')
			snprintf(said, sizeof said, "%.*s", (int)strnlen(part + 1, end - part - 1), part + 1);
}

/* Reads messages until the server is ready for the next query. */
static int pg_ready(int from)
{
	int failed = 0;

	for (;;) {
		unsigned char head[5];
		uint32_t length;

		if (receive_all(from, head, sizeof head))
			return -1;
		memcpy(&length, head + 1, 4);
		length = ntohl(length) - 4;
		/* Before it has a process for a client, the server says in text what is wrong. */
		if (*head == 'E' && length > sizeof packet) {
			ssize_t got = recv(from, packet, sizeof packet - 1, 0);

			packet[got > 0 ? got : 0] = 0;
			snprintf(said, sizeof said, "%.4s%.200s", head + 1, packet);
			said[strcspn(said, "\n")] = 0;
			return fail("service-error");
		}
		if (length > sizeof packet)
			return fail("malformed");
		if (receive_all(from, packet, length))
			return -1;
		/* Zero: it asks for no password. */
		if (*head == 'R' && length >= 4 && memcmp(packet, "\0\0\0", 4))
			return fail("login-refused");
		if (*head == 'E') {
			failed = 1;
			pg_said((const char *)packet, length);
		}
		if (*head == 'E' && memmem(packet, length, "FATAL", 5))
			return fail("service-error");
		if (*head == 'Z')
			return failed ? fail("service-error") : 0;
	}
}

static int pg_login(int to)
{
	static const char parameters[] = "user\0postgres\0database\0postgres\0";
	uint32_t head[2] = { htonl(sizeof head + sizeof parameters), htonl(196608) };

	return send_all(to, head, sizeof head) || send_all(to, parameters, sizeof parameters) ||
	       pg_ready(to) ? -1 : 0;
}

static int pg(int to, const char *request)
{
	char text[1024] = "Q";
	uint32_t length = htonl(strlen(request) + 5);

	memcpy(text + 1, &length, 4);
	strncpy(text + 5, request, sizeof text - 6);
	return send_all(to, text, strlen(request) + 6) || pg_ready(to) ? -1 : 0;
}

/* The length of the next packet, which is then in `packet`; -1 where there is none. */
static int mysql_packet(int from)
{
	unsigned char head[4];
	int length;

	if (receive_all(from, head, sizeof head))
		return -1;
	length = head[0] | head[1] << 8 | head[2] << 16;
	if (length < 1 || length > (int)sizeof packet)
		return fail("malformed");
	if (receive_all(from, packet, length))
		return -1;
	return *packet == 0xff ? fail("service-error") : length;
}

static int mysql_login(int to)
{
	/* CLIENT_LONG_PASSWORD, CLIENT_PROTOCOL_41, CLIENT_SECURE_CONNECTION, CLIENT_CONNECT_WITH_DB */
	const char *user = getenv("MYSQL_USER");
	unsigned char text[128] = { 0, 0, 0, 1, 0x09, 0x82, 0, 0, 0, 0, 0x10, 0, 33 };
	int length = 4 + 32;

	if (mysql_packet(to) < 0)
		return -1;
	length += sprintf((char *)text + length, "%.32s", user ? user : "trial") + 1;
	text[length++] = 0;
	length += sprintf((char *)text + length, "trial") + 1;
	text[0] = length - 4;
	return send_all(to, text, length) || mysql_packet(to) < 0 ? -1 : 0;
}

static int mysql(int to, const char *request)
{
	unsigned char text[1024] = { strlen(request) + 1, (strlen(request) + 1) >> 8, 0, 0, 3 };
	int length, ends = 0;

	strncpy((char *)text + 5, request, sizeof text - 6);
	if (send_all(to, text, strlen(request) + 5) || (length = mysql_packet(to)) < 0)
		return -1;
	if (*packet == 0)
		return 0;
	while (ends < 2) {
		length = mysql_packet(to);
		if (length < 0)
			return -1;
		ends += *packet == 0xfe && length < 9;
	}
	return 0;
}

static int dial(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct timeval limit = { .tv_sec = TIMEOUT_S };
	int to = socket(AF_INET, SOCK_STREAM, 0), failed = 0;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(to, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(to, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	if (connect(to, (struct sockaddr *)&address, sizeof address))
		failed = io_error();
	else if (!strcmp(protocol, "pg"))
		failed = pg_login(to);
	else if (!strcmp(protocol, "mysql"))
		failed = mysql_login(to);
	if (failed) {
		close(to);
		return -1;
	}
	return to;
}

static int ask(int to, const char *request)
{
	if (!strcmp(protocol, "http"))
		return http(to, request);
	if (!strcmp(protocol, "redis"))
		return redis(to, request);
	return !strcmp(protocol, "pg") ? pg(to, request) : mysql(to, request);
}

/* The request, or what is in the file that it names. */
static const char *request_of(const char *argument)
{
	static char text[1024];
	FILE *file;

	if (*argument != '@')
		return argument;
	file = fopen(argument + 1, "r");
	if (!file) {
		perror(argument + 1);
		exit(2);
	}
	text[fread(text, 1, sizeof text - 1, file)] = 0;
	fclose(file);
	return text;
}

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static void log_requests(const char *path, const char *request)
{
	struct sigaction action = { .sa_handler = stop };
	FILE *log = fopen(path, "w");
	int to = -1;

	if (!log) {
		perror(path);
		exit(1);
	}
	sigaction(SIGTERM, &action, NULL);
	while (!stopped) {
		double began = now_ms(CLOCK_REALTIME), from = now_ms(CLOCK_MONOTONIC), rest;
		int failed;

		if (to < 0)
			to = dial();
		failed = to < 0 || ask(to, request);
		if (stopped && failed)
			why = "unanswered";
		rest = PERIOD_MS - (now_ms(CLOCK_MONOTONIC) - from);
		fprintf(log, "%.0f %.1f %s\n", began, now_ms(CLOCK_MONOTONIC) - from, failed ? why : "ok");
		fflush(log);
		if (to >= 0 && (failed || !strcmp(protocol, "http"))) {
			close(to);
			to = -1;
		}
		if (rest > 0 && !stopped)
			usleep(rest * 1000);
	}
}

int main(int argc, char **argv)
{
	const char *option = argc > 1 && *argv[1] == '-' ? argv[1] : NULL, *argument = NULL;
	int to;

	if (option) {
		argument = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc < 4) {
		fprintf(stderr, "usage: ask [-c LOG | -h SECONDS] PROTOCOL PORT REQUEST...\n");
		return 2;
	}
	protocol = argv[1];
	port = atoi(argv[2]);
	if (option && !strcmp(option, "-c")) {
		log_requests(argument, request_of(argv[3]));
		return 0;
	}
	to = dial();
	for (int i = 3; to >= 0 && i < argc; i++)
		if (ask(to, request_of(argv[i])))
			to = -1;
	if (to < 0) {
		fprintf(stderr, "ask: %s%s%s\n", why, *said == 0 ? "" : ": ", said);
		return 1;
	}
	if (option)
		usleep(atof(argument) * 1e6);
	return 0;
}

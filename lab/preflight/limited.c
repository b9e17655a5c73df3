/*
 * limited: runs a command with limits of its own.
 *
 *   limited [group=DIR]... [as=BYTES] [data=BYTES] [memlock=BYTES] [bind=NODE] [uid=N] -- COMMAND...
 *
 * They are set in the order of the words, the user last.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POLICY_BIND 2

static void die(const char *what)
{
	perror(what);
	exit(125);
}

static const char *value(const char *word, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(word, name, length) && word[length] == '=' ? word + length + 1 : NULL;
}

static void join(const char *group)
{
	char path[512];
	int file;

	snprintf(path, sizeof path, "%s/cgroup.procs", group);
	file = open(path, O_WRONLY);
	if (file < 0 || write(file, "0", 1) != 1)
		die(path);
	close(file);
}

static void limit(int resource, const char *bytes)
{
	rlim_t n = strtoull(bytes, NULL, 10);
	struct rlimit both = { n, n };

	if (setrlimit(resource, &both))
		die("setrlimit");
}

static void bind_node(int node)
{
	unsigned long mask = 1UL << node;

	if (syscall(SYS_set_mempolicy, POLICY_BIND, &mask, sizeof mask * 8))
		die("set_mempolicy");
}

int main(int argc, char **argv)
{
	const char *found;
	int first = 1, uid = 0;

	for (; first < argc && strcmp(argv[first], "--"); first++) {
		if ((found = value(argv[first], "group"))) join(found);
		else if ((found = value(argv[first], "as"))) limit(RLIMIT_AS, found);
		else if ((found = value(argv[first], "data"))) limit(RLIMIT_DATA, found);
		else if ((found = value(argv[first], "memlock"))) limit(RLIMIT_MEMLOCK, found);
		else if ((found = value(argv[first], "bind"))) bind_node(atoi(found));
		else if ((found = value(argv[first], "uid"))) uid = atoi(found);
		else return 2;
	}
	if (first + 1 >= argc)
		return 2;
	if (uid && (setgroups(0, NULL) || setgid(uid) || setuid(uid)))
		die("setuid");
	execvp(argv[first + 1], argv + first + 1);
	die(argv[first + 1]);
}

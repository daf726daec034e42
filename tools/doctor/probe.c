/* SPDX-License-Identifier: MIT */
/* Making the probe of the driver, and its cache. */
#include "tools/doctor/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/base/numa.h"
#include "core/base/own_file.h"
#include "core/state/directory.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define LOCK      PROBE_CACHE ".lock"
#define LOCK_NS   60000000000ull
#define ANSWER_NS 150000000000ull /* each question has 20 s of its own */

enum { KINDS = 16, SAID_MAX = 8192, NOT_FOUND = 127 };

/* One kind of device, and the answers that the cache is to have of it. */
struct probe_kind {
	int ordinal;
	char name[64], key[PROBE_LINE_MAX];
	int nodes[NUMA_NODES_MAX], node_count;
	bool is_known;
};

struct probe_task {
	char program[PATH_MAX];
	const char *driver;
	enum probe_place place;
	int kind_count;
	struct probe_kind kind[KINDS];
	char *message;
	size_t size;
};

void probe_program(const char *shim, char *path, size_t size)
{
	const char *slash = strrchr(shim, '/');

	snprintf(path, size, "%.*s/driver-probe", slash ? (int)(slash - shim) : 0, shim);
}

/* --- running the program that asks --- */

/* Becomes the program, in the child. The driver itself is asked, not a shim before it. */
static _Noreturn void probe_become(char *const *arguments, int out)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, STDOUT_FILENO);
	unsetenv("LD_PRELOAD");
	setenv("SPILLWAY_DISABLE", "1", 1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv(arguments[0], arguments);
	_exit(NOT_FOUND);
}

/* Reads to the end. Returns false when the deadline comes before. */
static bool probe_read_all(int fd, char *out, size_t size, struct deadline *until)
{
	size_t filled = 0;

	for (;;) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		int wait_ms = (int)(deadline_left(until) / 1000000);
		ssize_t got;

		if (wait_ms == 0)
			return false;
		if (poll(&ready, 1, wait_ms) <= 0)
			continue;
		got = read(fd, out + filled, size - 1 - filled);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0 || filled + (size_t)got >= size - 1)
			break;
		filled += (size_t)got;
	}
	out[filled] = '\0';
	return true;
}

/* Runs the program and fills in its output. Returns its exit status, or -1. */
static int probe_run(char *const *arguments, char out[SAID_MAX])
{
	struct deadline until = DEADLINE_IN(ANSWER_NS);
	int ends[2], status = 0;
	pid_t child;

	*out = '\0';
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	fflush(stdout);
	child = fork();
	if (child == 0)
		probe_become(arguments, ends[1]);
	close(ends[1]);
	if (child > 0 && !probe_read_all(ends[0], out, SAID_MAX, &until))
		kill(child, SIGKILL);
	close(ends[0]);
	while (child > 0 && waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool probe_fail(const struct probe_task *task, const char *why)
{
	snprintf(task->message, task->size, "%s: %s", task->driver, why);
	return false;
}

static void probe_add_kind(struct probe_task *task, int version, int ordinal, int node,
                           const char *name)
{
	struct probe_kind *kind = &task->kind[task->kind_count];

	if (task->kind_count == KINDS)
		return;
	task->kind_count++;
	kind->ordinal = ordinal;
	snprintf(kind->name, sizeof kind->name, "%s", name);
	probe_cache_key(version, name, kind->key, sizeof kind->key);
	kind->node_count = numa_nodes("", node, kind->nodes);
	if (kind->node_count == 0)
		kind->nodes[kind->node_count++] = node;
}

/* Lists the kinds of devices. */
static bool probe_list(struct probe_task *task)
{
	char driver[PATH_MAX], said[SAID_MAX], name[64], *rest = said, *line;
	char *arguments[] = {task->program, driver, NULL};
	int version = 0, ordinal, node, status;

	snprintf(driver, sizeof driver, "%s", task->driver);
	status = probe_run(arguments, said);
	if (status == NOT_FOUND) {
		snprintf(task->message, task->size, "%s cannot be run: %s", task->program,
		         access(task->program, X_OK) != 0 ? strerror(errno) : "unknown reason");
		return false;
	}
	while ((line = strtok_r(NULL, "\n", &rest))) {
		if (sscanf(line, "device %d node %d %63[^\n]", &ordinal, &node, name) == 3)
			probe_add_kind(task, version, ordinal, node, name);
		else
			(void)sscanf(line, "version %d", &version);
	}
	if (status != 0 || task->kind_count == 0)
		return probe_fail(task,
		                  status == 0 ? "it knows no device" : "it cannot be initialised");
	return true;
}

/* --- the cache --- */

static bool probe_has(const struct probe_kind *kind, const struct probe_answers *answers)
{
	for (int i = 0; i < kind->node_count; i++)
		if (kind->nodes[i] < PROBE_NODES && answers->numa[kind->nodes[i]] == PROBE_UNKNOWN)
			return false;
	return true;
}

/* Returns whether all is known: the answers for all users, from root's cache alone. */
static bool probe_is_known(struct probe_task *task)
{
	char text[PROBE_CACHE_MAX];
	struct probe_answers answers;
	bool is_known = true;

	for (int i = 0; i < task->kind_count; i++) {
		struct probe_kind *kind = &task->kind[i];

		if (task->place == PROBE_OF_ROOT)
			kind->is_known = probe_cache_read(PROBE_OF_ROOT, text) == 0 &&
			                 probe_cache_find(text, kind->key, &answers);
		else
			kind->is_known = probe_cache_look_up(kind->key, &answers, NULL);
		kind->is_known = kind->is_known && probe_has(kind, &answers);
		is_known &= kind->is_known;
	}
	return is_known;
}

/* Returns whether an answer may be another one in the next minute. */
static bool probe_may_change(int answer)
{
	enum { OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, UNAVAILABLE = 46, NO_DEVICE = 100 };

	return answer == OUT_OF_MEMORY || answer == NOT_INITIALIZED || answer == UNAVAILABLE ||
	       answer == NO_DEVICE;
}

/* Adds the answers to a kind's lines of the cache. */
static bool probe_add_lines(const struct probe_task *task, const struct probe_kind *kind,
                            char *said, FILE *lines)
{
	char word[8], *rest = said, *line;
	int of[PROBE_QUESTIONS], node;

	for (int i = 0; i < PROBE_QUESTIONS; i++)
		of[i] = PROBE_UNKNOWN;
	while ((line = strtok_r(NULL, "\n", &rest))) {
		if (sscanf(line, "numa %d %7s", &node, word) == 2)
			fprintf(lines, "%s, NUMA node %d: %s\n", kind->key, node, word);
		for (int i = 0; i < PROBE_QUESTIONS; i++) {
			const char *name = probe_question_name((enum probe_question)i);
			size_t length = strlen(name);

			if (strncmp(line, name, length) == 0 && line[length] == ' ')
				of[i] = probe_answer_read(line + length + 1);
		}
	}
	fprintf(lines, "%s:", kind->key);
	for (int i = 0; i < PROBE_QUESTIONS; i++) {
		const char *name = probe_question_name((enum probe_question)i);

		if (of[i] == PROBE_UNKNOWN)
			return probe_fail(task, "the probe was cut short");
		if (i != PROBE_HOST && probe_may_change(of[i]))
			return probe_fail(task, "the GPU has no room for the probe now");
		if (of[i] == PROBE_CRASHED)
			fprintf(lines, " %s crash", name);
		else
			fprintf(lines, " %s %d", name, of[i]);
	}
	fputc('\n', lines);
	return true;
}

/* Asks for the unknown answers, and adds them as lines of the cache. */
static bool doctor_probe_ask(const struct probe_task *task, FILE *lines)
{
	for (int i = 0; i < task->kind_count; i++) {
		const struct probe_kind *kind = &task->kind[i];
		char program[PATH_MAX], driver[PATH_MAX], ordinal[16], nodes[16 * NUMA_NODES_MAX];
		char *arguments[] = {program, driver, ordinal, nodes, NULL};
		char said[SAID_MAX];
		size_t length = 0;

		if (kind->is_known)
			continue;
		snprintf(program, sizeof program, "%s", task->program);
		snprintf(driver, sizeof driver, "%s", task->driver);
		snprintf(ordinal, sizeof ordinal, "%d", kind->ordinal);
		for (int j = 0; j < kind->node_count; j++)
			length += (size_t)snprintf(nodes + length, sizeof nodes - length, "%s%d",
			                           j ? "," : "", kind->nodes[j]);
		if (probe_run(arguments, said) != 0)
			return probe_fail(task, "it does not answer the probe");
		if (!probe_add_lines(task, kind, said, lines))
			return false;
	}
	return true;
}

/* Returns whether an old line is of this boot and is not replaced by the new lines. */
static bool probe_stays(const char *line, size_t length, const char *lines)
{
	const char *colon = memrchr(line, ':', length);
	char key[PROBE_LINE_MAX];
	size_t of_boot = strcspn(lines + strlen("boot "), " ") + strlen("boot ");

	if (strncmp(line, lines, of_boot) != 0)
		return false;
	/* A kind's answers contain no colon, so the last one ends the key. */
	if (!colon || (size_t)(colon - line) + 2 > sizeof key)
		return false;
	snprintf(key, sizeof key, "%.*s:", (int)(colon - line), line);
	return strstr(lines, key) == NULL;
}

static void probe_print_old(enum probe_place place, const char *lines, FILE *to)
{
	char text[PROBE_CACHE_MAX];
	const char *end;

	if (probe_cache_read(place, text) != 0 ||
	    strlen(text) + strlen(lines) > PROBE_CACHE_MAX / 2)
		return;
	for (const char *line = text; (end = strchr(line, '\n')); line = end + 1)
		if (probe_stays(line, (size_t)(end - line), lines))
			fprintf(to, "%.*s\n", (int)(end - line), line);
}

/* Replaces the cache of the place: a reader sees the old one or the new one. */
static int probe_write(enum probe_place place, const char *lines)
{
	char path[PATH_MAX], *next;
	FILE *file;
	int fd, error = 0;

	probe_cache_path(place, path, sizeof path);
	next = text("%s.%d", path, (int)getpid());
	unlink(next);
	fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file) {
		error = errno;
		free(next);
		return error;
	}
	fchmod(fd, place == PROBE_OF_ROOT ? 0644 : 0600);
	probe_print_old(place, lines, file);
	fputs(lines, file);
	if (fclose(file) != 0 || rename(next, path) != 0) {
		error = errno;
		unlink(next);
	}
	free(next);
	return error;
}

/* Writes root's, or the user's own where root's place cannot be written to. */
static bool probe_keep(struct probe_task *task, const char *lines)
{
	char path[PATH_MAX];
	int error = probe_write(task->place, lines);

	if (error && task->place == PROBE_OF_ROOT) {
		task->place = PROBE_OF_USER;
		error = probe_write(task->place, lines);
	}
	probe_cache_path(task->place, path, sizeof path);
	if (error)
		snprintf(task->message, task->size, "%s: %s", path, strerror(error));
	return error == 0;
}

/* Returns whether root's cache can be where all users read it. */
static bool probe_has_node(bool makes_node)
{
	char path[PATH_MAX];
	struct stat found;

	directory_of_node(path, sizeof path);
	/*
	 * All users may read it and only root writes: tmpfiles-spillway.conf may open it for more.
	 */
	if (makes_node && mkdir(path, 0755) == 0)
		(void)chmod(path, 0755);
	return file_status(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static enum probe_outcome probe_make_locked(struct probe_task *task)
{
	enum probe_outcome outcome = PROBE_FAILED;
	char *lines = NULL;
	size_t length = 0;
	FILE *to;

	if (!probe_list(task))
		return PROBE_FAILED;
	if (probe_is_known(task)) {
		probe_cache_path(task->place, task->message, task->size);
		return PROBE_WAS_THERE;
	}
	to = open_memstream(&lines, &length);
	if (!to)
		return PROBE_FAILED;
	if (doctor_probe_ask(task, to) && fflush(to) == 0 && probe_keep(task, lines)) {
		probe_cache_path(task->place, task->message, task->size);
		outcome = PROBE_MADE;
	}
	fclose(to);
	free(lines);
	return outcome;
}

enum probe_outcome probe_make(const char *shim, const char *driver, bool makes_node, char *message,
                              size_t size)
{
	struct probe_task task = {.driver = driver, .message = message, .size = size};
	struct deadline until = DEADLINE_IN(LOCK_NS);
	int directory = directory_open(1, message, size), lock, error;
	enum probe_outcome outcome = PROBE_FAILED;

	if (directory < 0)
		return PROBE_FAILED;
	task.place = geteuid() == 0 && probe_has_node(makes_node) ? PROBE_OF_ROOT : PROBE_OF_USER;
	probe_program(shim, task.program, sizeof task.program);
	lock = own_file_open(directory, LOCK, O_RDWR | O_CREAT, 0600);
	close(directory);
	error = lock < 0 ? lock : own_file_lock(lock, LOCK_EX, &until);
	if (error)
		snprintf(message, size, LOCK ": %s", own_file_error(error));
	else
		outcome = probe_make_locked(&task);
	if (lock >= 0)
		close(lock);
	return outcome;
}

/* --- for spillway run --- */

void probe_forget(const char *job)
{
	char *mark = jobs_file(job, &PROBE_WANTED[1]);

	unlink(mark);
	free(mark);
}

/* Reads which driver a process of the job asks a probe of. It may be about to write it. */
static bool probe_is_asked(const char *job, char driver[PATH_MAX])
{
	char *mark = jobs_file(job, &PROBE_WANTED[1]);
	int fd = own_file_open(AT_FDCWD, mark, O_RDONLY, 0);
	ssize_t got = fd < 0 ? -1 : read(fd, driver, PATH_MAX - 1);

	if (fd >= 0)
		close(fd);
	free(mark);
	if (got <= 1 || driver[got - 1] != '\n' || driver[0] != '/')
		return false;
	driver[got - 1] = '\0';
	return true;
}

/* Lets go of all that is the run's: its terminal, its locks, its place. */
static void probe_leave_run(void)
{
	int null = open("/dev/null", O_RDWR), score;
	sigset_t none;

	setsid();
	if (null >= 0)
		for (int i = 0; i <= STDERR_FILENO; i++)
			dup2(null, i);
	if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0) != 0) /* since Linux 5.9 */
		for (int fd = STDERR_FILENO + 1; fd < 1024; fd++)
			close(fd);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Of a cgroup that is full the probe goes, not the program. */
	score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (score >= 0) {
		(void)!write(score, "1000", 4);
		close(score);
	}
	(void)!chdir("/");
}

bool probe_serve(const char *shim, const char *job)
{
	char driver[PATH_MAX], message[2 * PATH_MAX];
	pid_t between;

	if (!probe_is_asked(job, driver))
		return false;
	probe_forget(job);
	fflush(NULL);
	between = fork();
	if (between == 0) {
		if (fork() == 0) { /* no child of the run: the run waits for its program alone */
			probe_leave_run();
			probe_make(shim, driver, false, message, sizeof message);
		}
		_exit(0);
	}
	if (between > 0)
		while (waitpid(between, NULL, 0) < 0 && errno == EINTR)
			;
	return true;
}

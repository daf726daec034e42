/* SPDX-License-Identifier: MIT */
/*
 * The resources of processes. They connect to us (core/wire/wire.h); their text is bounded, checked
 * and never trusted, and one deadline bounds the wait for all of them.
 */
#include "tools/cli/resources_ask.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "tools/view/tool.h"

enum { LOOK_NS = 20000000, AT_ONCE = 256 /* each takes a descriptor */ };
#define PATIENCE_NS 3000000000ull /* a process looks once a second even where no bell wakes it */

static void resources_ask_ask(struct asked *asked, const struct segment_view *view,
                              uint64_t deadline)
{
	char message[512] = "";

	asked->listener = -1;
	if (asked->process->lacks & SEGMENT_MODULE_resources) {
		asked->why = text("its Spillway is built without the module 'resources'");
		return;
	}
	asked->token = resources_token(view->token, asked->process->started_ns);
	/* another command that asks the same process has the name for a moment */
	while ((asked->listener = wire_listen(&asked->token, message, sizeof message)) ==
	           -EADDRINUSE &&
	       wire_deadline(0) < deadline) {
		wire_sweep();
		deadline_sleep(LOOK_NS);
	}
	if (asked->listener < 0)
		asked->why = text("%s", message);
	else
		segment_ring(view->job);
}

static void resources_ask_stop_asking(struct asked *asked)
{
	wire_unlink(&asked->token);
	close(asked->listener);
	asked->listener = -1;
}

static int by_bytes(const void *a, const void *b)
{
	const struct listed *one = a, *other = b;
	int order = (one->bytes < other->bytes) - (one->bytes > other->bytes);

	if (order == 0)
		order = one->handle.gpu - other->handle.gpu;
	if (order == 0)
		order = strcmp(one->handle.type_name, other->handle.type_name);
	return order ? order : strcmp(one->handle.name, other->handle.name);
}

/* Reads one line of the list, ended by NUL. */
static bool resources_ask_read_line(char *at, struct listed *line)
{
	char *end;

	line->bytes = strtoull(at, &end, 10);
	if (end == at || *end != ' ')
		return false;
	at = end + 1;
	line->age_ns = strtoull(at, &end, 10);
	return end != at && *end == ' ' && handle_parse(end + 1, &line->handle) == 0;
}

/* Reads the lines of the list. Returns false where it is none. */
static bool resources_ask_read_lines(struct asked *asked, char *list)
{
	asked->line = allocate(((size_t)asked->reply.listed + 1) * sizeof *asked->line);
	while (*list) {
		char *end = strchr(list, '\n');

		if (!end || asked->count == asked->reply.listed)
			return false;
		*end = '\0';
		if (!resources_ask_read_line(list, &asked->line[asked->count++]))
			return false;
		list = end + 1;
	}
	if (asked->count != asked->reply.listed)
		return false;
	if (asked->count)
		qsort(asked->line, asked->count, sizeof *asked->line, by_bytes);
	return true;
}

static bool read_file(struct asked *asked, int file)
{
	size_t size = (size_t)asked->reply.size;
	char *list = allocate(size + 1);
	size_t done = 0;
	ssize_t length;
	bool valid;

	while (done < size && (length = pread(file, list + done, size - done, (off_t)done)) > 0)
		done += (size_t)length;
	valid = done == size && strlen(list) == size && resources_ask_read_lines(asked, list);
	free(list);
	return valid;
}

static bool resources_ask_is_valid(const struct resources_reply *reply, size_t descriptors)
{
	struct resources_reply expected = resources_reply_new();

	return memcmp(reply->magic, expected.magic, sizeof expected.magic) == 0 &&
	       reply->version == expected.version && reply->listed <= RESOURCES_MAX &&
	       reply->size <= reply->listed * RESOURCES_LINE_MAX &&
	       descriptors == (reply->error ? 0 : 1);
}

/*
 * Returns whether it is a file of this size, all of which is there: a pipe would keep its reader
 * waiting, and pages that are not there would cost memory.
 */
static bool resources_ask_is_file(int fd, uint64_t size)
{
	struct stat found;

	return file_status_of(fd, &found) == 0 && S_ISREG(found.st_mode) &&
	       (uint64_t)found.st_size == size && (uint64_t)found.st_blocks * 512 >= size;
}

/*
 * Takes one answer. Returns false where the other side only looked for a listener, as another
 * command that asks does.
 */
static bool resources_ask_receive(struct asked *asked, int fd, uint64_t deadline)
{
	size_t count = 0;
	int file = -1;
	int error =
	    wire_receive(fd, &asked->reply, sizeof asked->reply, &file, 1, &count, deadline);

	if (error == -EPIPE)
		return false;
	if (error == -EAGAIN)
		asked->why = text("it does not answer; is it stopped?");
	else if (error)
		asked->why = text("it answers something else; is it of this version?");
	else if (!resources_ask_is_valid(&asked->reply, count))
		asked->why = text("its answer is damaged");
	else if (asked->reply.error)
		asked->why = text("it cannot: %s", strerror(asked->reply.error));
	else if (!resources_ask_is_file(file, asked->reply.size) || !read_file(asked, file))
		asked->why = text("its answer is damaged");
	if (!error && count)
		close(file);
	return true;
}

static void take_answers(struct asked *asked, int count, uint64_t deadline)
{
	for (int i = 0; i < count; i++) {
		int fd;

		if (asked[i].listener < 0 || (fd = wire_accept(asked[i].listener)) < 0)
			continue;
		if (resources_ask_receive(&asked[i], fd, deadline))
			resources_ask_stop_asking(&asked[i]);
		close(fd);
	}
}

static int resources_ask_left(const struct asked *asked, int count, struct pollfd *poller)
{
	int waiting = 0;

	for (int i = 0; i < count; i++)
		if (asked[i].listener >= 0)
			poller[waiting++] =
			    (struct pollfd){.fd = asked[i].listener, .events = POLLIN};
	return waiting;
}

static void wait_for_answers(struct asked *asked, int count, uint64_t deadline)
{
	struct pollfd *poller = allocate(((size_t)count + 1) * sizeof *poller);
	int waiting;

	while ((waiting = resources_ask_left(asked, count, poller)) > 0) {
		uint64_t now = wire_deadline(0);

		if (now >= deadline)
			break;
		poll(poller, (nfds_t)waiting, (int)((deadline - now) / 1000000 + 1));
		take_answers(asked, count, deadline);
	}
	for (int i = 0; i < count; i++) {
		if (asked[i].listener < 0)
			continue;
		resources_ask_stop_asking(&asked[i]);
		asked[i].why = text("it does not answer; is it stopped?");
	}
	free(poller);
}

static bool is_live(const struct segment_view *view, const struct segment_process *process)
{
	for (int i = 0; i < view->process_count; i++)
		if (view->process[i].state == SLOT_LIVE && view->process[i].pid == process->pid &&
		    view->process[i].started_ns == process->started_ns)
			return true;
	return false;
}

/* Leaves out those that gave no answer because they have ended since. How many are left. */
static int leave_out_ended(const struct segment_view *view, struct asked *asked, int count)
{
	struct segment_view *now = allocate(sizeof *now);
	int error = segment_read(view->job, now, NULL, 0), kept = 0;
	bool is_same = !error && now->token == view->token;

	for (int i = 0; i < count; i++) {
		if (!asked[i].why || (error && error != -ENOENT) ||
		    (is_same && is_live(now, asked[i].process))) {
			asked[kept++] = asked[i];
		} else {
			free(asked[i].line);
			free(asked[i].why);
		}
	}
	segment_view_free(now);
	return kept;
}

int resources_ask(const struct segment_view *view, struct asked *asked)
{
	uint64_t deadline = wire_deadline(PATIENCE_NS);
	int count = 0, answered = 0;

	for (int i = 0; i < view->process_count; i++) {
		if (view->process[i].state != SLOT_LIVE)
			continue;
		if (count - answered == AT_ONCE) {
			wait_for_answers(asked + answered, AT_ONCE, deadline);
			answered = count;
			deadline = wire_deadline(PATIENCE_NS);
		}
		asked[count].process = &view->process[i];
		resources_ask_ask(&asked[count++], view, deadline);
	}
	wait_for_answers(asked + answered, count - answered, deadline);
	return leave_out_ended(view, asked, count);
}

/*
 * The resources of processes. They connect to us (core/wire/resources_wire.h); what they send is
 * bounded, checked and never trusted, and who does not come is not waited for beyond one deadline
 * for all.
 */
#include "tools/cli/resources.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/base/units.h"
#include "core/wire/resources_wire.h"
#include "tools/cli/looked_up.h"
#include "tools/formats/json.h"
#include "tools/formats/table.h"
#include "tools/view/node.h"
#include "tools/view/tool.h"

enum { LOOK_NS = 20000000 };
#define PATIENCE_NS \
	3000000000ull /* a process looks once a second even where inotify wakes nobody */

/* One process that was asked. */
struct asked {
	const struct segment_process *process;
	struct wire_token token;
	int listener; /* -1: the answer is there, or will not come */
	struct resources_reply reply;
	struct listed *line;
	size_t count;
	char *why; /* no answer; NULL: one */
};

static void ask(struct asked *asked, const struct segment_view *view, uint64_t deadline)
{
	char message[512] = "";

	asked->token = resources_token(view->token, asked->process->started_ns);
	/* another who asks the same process has the name for a moment */
	while ((asked->listener = wire_listen(&asked->token, message, sizeof message)) ==
	           -EADDRINUSE &&
	       wire_deadline(0) < deadline) {
		wire_sweep();
		deadline_sleep(LOOK_NS);
	}
	if (asked->listener < 0)
		asked->why = text("%s", message);
}

static void stop_asking(struct asked *asked)
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

/* One line of the list, ended by NUL. */
static bool read_line(char *at, struct listed *line)
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
static bool read_lines(struct asked *asked, char *list)
{
	asked->line = allocate(((size_t)asked->reply.listed + 1) * sizeof *asked->line);
	while (*list) {
		char *end = strchr(list, '\n');

		if (!end || asked->count == asked->reply.listed)
			return false;
		*end = '\0';
		if (!read_line(list, &asked->line[asked->count++]))
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
	valid = done == size && strlen(list) == size && read_lines(asked, list);
	free(list);
	return valid;
}

static bool is_valid(const struct resources_reply *reply, size_t descriptors)
{
	struct resources_reply expected = resources_reply_new();

	return memcmp(reply->magic, expected.magic, sizeof expected.magic) == 0 &&
	       reply->version == expected.version && reply->listed <= RESOURCES_MAX &&
	       reply->size <= (uint64_t)RESOURCES_MAX * RESOURCES_LINE_MAX &&
	       descriptors == (reply->error ? 0 : 1);
}

/* Returns whether it is a file: a pipe would keep who reads it waiting. */
static bool is_file(int fd)
{
	struct stat found;

	return fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
}

/*
 * Takes one answer. Returns false where the other side only looked whether anybody listens, as
 * another who asks does.
 */
static bool receive(struct asked *asked, int fd, uint64_t deadline)
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
	else if (!is_valid(&asked->reply, count))
		asked->why = text("its answer is damaged");
	else if (asked->reply.error)
		asked->why = text("it cannot: %s", strerror(asked->reply.error));
	else if (!is_file(file) || !read_file(asked, file))
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
		if (receive(&asked[i], fd, deadline))
			stop_asking(&asked[i]);
		close(fd);
	}
}

static int left(const struct asked *asked, int count, struct pollfd *poller)
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
	struct pollfd poller[SEGMENT_SLOTS];
	int waiting;

	while ((waiting = left(asked, count, poller)) > 0) {
		uint64_t now = wire_deadline(0);

		if (now >= deadline)
			break;
		poll(poller, (nfds_t)waiting, (int)((deadline - now) / 1000000 + 1));
		take_answers(asked, count, deadline);
	}
	for (int i = 0; i < count; i++) {
		if (asked[i].listener < 0)
			continue;
		stop_asking(&asked[i]);
		asked[i].why = text("it does not answer; is it stopped?");
	}
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
	free(now);
	return kept;
}

static int ask_all(const struct segment_view *view, struct asked *asked)
{
	uint64_t deadline = wire_deadline(PATIENCE_NS);
	int count = 0;

	for (int i = 0; i < view->process_count; i++) {
		if (view->process[i].state != SLOT_LIVE)
			continue;
		asked[count].process = &view->process[i];
		ask(&asked[count++], view, deadline);
	}
	wait_for_answers(asked, count, deadline);
	return leave_out_ended(view, asked, count);
}

struct types {
	int count;
	struct {
		const char *name;
		uint64_t resources;
	} type[64]; /* more there are not */
};

/* How many of each type, the most first. */
static void count_types(const struct asked *asked, struct types *types)
{
	types->count = 0;
	for (size_t i = 0; i < asked->count; i++) {
		const char *name = asked->line[i].handle.type_name;
		int n = 0;

		while (n < types->count && strcmp(types->type[n].name, name) != 0)
			n++;
		if (n == (int)(sizeof types->type / sizeof *types->type))
			continue;
		if (n == types->count) {
			types->count++;
			types->type[n].name = name;
			types->type[n].resources = 0;
		}
		types->type[n].resources++;
	}
	for (int i = 1; i < types->count; i++)
		for (int n = i; n > 0 && types->type[n].resources > types->type[n - 1].resources;
		     n--) {
			__typeof__(types->type[0]) more = types->type[n];

			types->type[n] = types->type[n - 1];
			types->type[n - 1] = more;
		}
}

static void print_types(const struct asked *asked)
{
	struct types types;

	count_types(asked, &types);
	for (int i = 0; i < types.count; i++)
		printf("%s%" PRIu64 " %s", i ? ", " : "", types.type[i].resources,
		       types.type[i].name);
	printf("\n");
}

static void json_types(struct json *json, const struct asked *asked)
{
	struct types types;

	count_types(asked, &types);
	json_open(json, "types", '{');
	for (int i = 0; i < types.count; i++)
		json_number(json, types.type[i].name, types.type[i].resources);
	json_close(json, '}');
}

static void print_text(const struct segment_view *view, const struct asked *asked, int count)
{
	static const char *const headings[] = {"BYTES", "AGE", "<HANDLE", NULL};
	struct table table;

	printf("job %s: %d live %s\n", view->job, count, count == 1 ? "process" : "processes");
	for (int i = 0; i < count; i++) {
		if (asked[i].why)
			continue;
		printf("\nprocess %d: %zu resources", (int)asked[i].process->pid, asked[i].count);
		if (asked[i].reply.left_out)
			printf(", and %" PRIu64 " more", asked[i].reply.left_out);
		printf("\n");
		if (asked[i].count == 0)
			continue;
		print_types(&asked[i]);
		table_start(&table, headings);
		for (size_t n = 0; n < asked[i].count; n++) {
			const struct listed *line = &asked[i].line[n];
			char value[REGISTRY_HANDLE_MAX];

			table_cell(&table, "%s",
			           units_format_size(line->bytes, value, sizeof value));
			table_cell(&table, "%s",
			           units_format_duration(line->age_ns, value, sizeof value));
			table_cell(&table, "%s", handle_format(&line->handle, value, sizeof value));
		}
		table_end(&table, stdout);
	}
}

static void json_process(struct json *json, const struct asked *asked)
{
	json_open(json, NULL, '{');
	json_number(json, "pid", (uint64_t)asked->process->pid);
	if (asked->why) {
		json_text(json, "error", asked->why);
		json_null(json, "resources");
		json_null(json, "types");
		json_close(json, '}');
		return;
	}
	json_null(json, "error");
	json_open(json, "resources", '[');
	for (size_t i = 0; i < asked->count; i++) {
		char handle[REGISTRY_HANDLE_MAX];

		json_open(json, NULL, '{');
		json_text(json, "handle",
		          handle_format(&asked->line[i].handle, handle, sizeof handle));
		json_text(json, "type", asked->line[i].handle.type_name);
		json_number(json, "bytes", asked->line[i].bytes);
		json_number(json, "age_ns", asked->line[i].age_ns);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_types(json, asked);
	json_number(json, "left_out", asked->reply.left_out);
	json_close(json, '}');
}

static void print_json(const struct segment_view *view, const struct asked *asked, int count)
{
	struct json json = {.out = stdout};

	json_open(&json, NULL, '{');
	json_text(&json, "job", view->job);
	json_open(&json, "processes", '[');
	for (int i = 0; i < count; i++)
		json_process(&json, &asked[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	putchar('\n');
}

/* Says who did not answer, and frees all. */
static int end(struct asked *asked, int count)
{
	int status = TOOL_OK;

	for (int i = 0; i < count; i++) {
		if (asked[i].why) {
			complain("process %d: %s", (int)asked[i].process->pid, asked[i].why);
			status = TOOL_FAILED;
		}
		free(asked[i].line);
		free(asked[i].why);
	}
	free(asked);
	return status;
}

int resources_show(const struct segment_view *view, bool as_json)
{
	struct asked *asked = allocate(SEGMENT_SLOTS * sizeof *asked);
	int count = ask_all(view, asked);

	if (as_json)
		print_json(view, asked, count);
	else
		print_text(view, asked, count);
	return end(asked, count);
}

/* --- handles --- */

/* The process that a handle names; NULL: *why says what there is of it. */
static const struct asked *asked_of(const struct segment_view *view, const struct asked *asked,
                                    int count, const struct handle *handle, char **why)
{
	*why = NULL;
	if (strcmp(handle->job, view->job) != 0) {
		*why = text("it is of job %s", handle->job);
		return NULL;
	}
	for (int i = 0; i < count; i++) {
		if (asked[i].process->pid != handle->process)
			continue;
		if (asked[i].why)
			*why = text("process %d: %s", handle->process, asked[i].why);
		return asked[i].why ? NULL : &asked[i];
	}
	*why = text("process %d is not live", handle->process);
	return NULL;
}

static bool are_of_one_device(const struct handle *one, const struct handle *other)
{
	return one->process == other->process && one->gpu == other->gpu &&
	       strcmp(one->job, other->job) == 0;
}

static void look_up(const struct segment_view *view, const struct asked *asked, int count,
                    const struct handle *handles, size_t n, struct looked_up *found)
{
	for (size_t first = 0, end; first < n; first = end) {
		const struct asked *of;
		struct looked_up_device *device;
		char *why;

		for (end = first + 1; end < n && are_of_one_device(&handles[first], &handles[end]);
		     end++)
			;
		of = asked_of(view, asked, count, &handles[first], &why);
		for (size_t i = first; !of && i < end; i++)
			found[i] = (struct looked_up){.why = text("%s", why)};
		free(why);
		if (!of)
			continue;
		device = looked_up_create(view->job, handles[first].process, handles[first].gpu,
		                          of->line, of->count);
		looked_up_find(device, handles + first, end - first, found + first);
		looked_up_destroy(device);
		if (!of->reply.left_out)
			continue;
		for (size_t i = first; i < end; i++)
			if (!found[i].listed) {
				free(found[i].why);
				found[i].why = text("not among the %zu that the process lists, of "
				                    "which %" PRIu64 " were left out",
				                    of->count, of->reply.left_out);
			}
	}
}

static void print_looked_up(const struct handle *handles, size_t n, const struct looked_up *found)
{
	static const char *const headings[] = {"BYTES", "AGE", "<HANDLE", NULL};
	struct table table;

	table_start(&table, headings);
	for (size_t i = 0; i < n; i++) {
		const struct listed *line = found[i].listed;
		char value[REGISTRY_HANDLE_MAX];

		table_cell(&table, "%s",
		           line ? units_format_size(line->bytes, value, sizeof value) : "-");
		table_cell(&table, "%s",
		           line ? units_format_duration(line->age_ns, value, sizeof value)
		                : "gone");
		table_cell(&table, "%s", handle_format(&handles[i], value, sizeof value));
	}
	table_end(&table, stdout);
}

static void json_looked_up(const struct segment_view *view, const struct handle *handles, size_t n,
                           const struct looked_up *found)
{
	struct json json = {.out = stdout};

	json_open(&json, NULL, '{');
	json_text(&json, "job", view->job);
	json_open(&json, "handles", '[');
	for (size_t i = 0; i < n; i++) {
		const struct listed *line = found[i].listed;
		char handle[REGISTRY_HANDLE_MAX];

		json_open(&json, NULL, '{');
		json_text(&json, "handle", handle_format(&handles[i], handle, sizeof handle));
		if (line) {
			json_number(&json, "bytes", line->bytes);
			json_number(&json, "age_ns", line->age_ns);
			json_null(&json, "error");
		} else {
			json_null(&json, "bytes");
			json_null(&json, "age_ns");
			json_text(&json, "error", found[i].why);
		}
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_close(&json, '}');
	putchar('\n');
}

int resources_look_up(const struct segment_view *view, const struct handle *handles, size_t n,
                      bool as_json)
{
	struct asked *asked = allocate(SEGMENT_SLOTS * sizeof *asked);
	struct looked_up *found = allocate(n * sizeof *found);
	int count = ask_all(view, asked), status = TOOL_OK;

	look_up(view, asked, count, handles, n, found);
	if (as_json)
		json_looked_up(view, handles, n, found);
	else
		print_looked_up(handles, n, found);
	for (size_t i = 0; i < n; i++) {
		if (!found[i].listed)
			status = TOOL_FAILED;
		if (!found[i].listed && !as_json)
			complain("%s", found[i].why);
		free(found[i].why);
	}
	free(found);
	return end(asked, count) != TOOL_OK ? TOOL_FAILED : status;
}

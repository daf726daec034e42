/* SPDX-License-Identifier: MIT */
/* The resources of processes, shown. */
#include "tools/cli/resources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "tools/cli/looked_up.h"
#include "tools/cli/resources_ask.h"
#include "tools/formats/json.h"
#include "tools/formats/table.h"
#include "tools/view/node.h"
#include "tools/view/tool.h"

struct types {
	int count;
	struct {
		const char *name;
		uint64_t resources;
	} type[64]; /* more there are not */
};

/* Counts how many there are of each type, the most first. */
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

static void cli_resources_json_process(struct json *json, const struct asked *asked)
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

static void cli_resources_print_json(const struct segment_view *view, const struct asked *asked,
                                     int count)
{
	struct json json = {.out = stdout};

	json_open_document(&json);
	json_text(&json, "job", view->job);
	json_open(&json, "processes", '[');
	for (int i = 0; i < count; i++)
		cli_resources_json_process(&json, &asked[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	putchar('\n');
}

/* Names the processes that did not answer, and frees all. */
static int cli_resources_end(struct asked *asked, int count)
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
	struct asked *asked = allocate(((size_t)view->process_count + 1) * sizeof *asked);
	int count = resources_ask(view, asked);

	if (as_json)
		cli_resources_print_json(view, asked, count);
	else
		print_text(view, asked, count);
	return cli_resources_end(asked, count);
}

/* --- handles --- */

/* Returns the process that a handle names; NULL: *why has the reason. */
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
				                    "which %" PRIu64 " had no room in its answer",
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

	json_open_document(&json);
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
	struct asked *asked = allocate(((size_t)view->process_count + 1) * sizeof *asked);
	struct looked_up *found = allocate(n * sizeof *found);
	int count = resources_ask(view, asked), status = TOOL_OK;

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
	return cli_resources_end(asked, count) != TOOL_OK ? TOOL_FAILED : status;
}

/* SPDX-License-Identifier: MIT */
/* One job as text and as JSON. */
#include "tools/formats/report.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/formats/device_table.h"
#include "tools/formats/on_host.h"
#include "tools/formats/refused.h"
#include "tools/formats/report_moves.h"
#include "tools/formats/report_unmanaged.h"
#include "tools/formats/report_sharing.h"
#include "tools/formats/table.h"
#include "tools/formats/value.h"
#include "core/state/directory.h"
#include "tools/view/counters.h"
#include "tools/view/gpus.h"
#include "tools/view/jobs.h"
#include "tools/view/node.h"
#include "tools/view/reach.h"
#include "tools/view/sharing.h"
#include "tools/view/tool.h"

static void print_job(const struct segment_view *view)
{
	char began[32], ended[32], since[32];
	bool lives = jobs_live_process(view);
	struct config_pause pause;
	struct jobs_change change;
	char by[NODE_USER_MAX];
	bool is_paused = lives && jobs_pause(view->job, &pause);

	time_text(view->created_ns, began, sizeof began);
	if (lives)
		printf("job %s: %s %s", view->job, is_paused ? "paused, began" : "running since",
		       began);
	else if (view->ended_ns)
		printf("job %s: ended %s, began %s", view->job,
		       time_text(view->ended_ns, ended, sizeof ended), began);
	else
		printf("job %s: ended, began %s", view->job, began);
	if (*view->labels)
		printf("; labels %s", view->labels);
	printf("\n");
	if (is_paused) {
		printf("paused%s%s", *pause.by ? " by " : "", pause.by);
		if (pause.since_ns)
			printf(" since %s", time_text(pause.since_ns, since, sizeof since));
		printf(": 'spillway resume %s' lets it go on\n", view->job);
	}
	if (lives && jobs_last_change(view->job, &change))
		printf("settings: last changed %s by %s, through %s\n",
		       time_text(change.at_ns, since, sizeof since),
		       node_user(change.by, by, sizeof by),
		       strcmp(change.through, "page") == 0  ? "the page"
		       : strcmp(change.through, "top") == 0 ? "spillway top"
		                                            : "a command");
	if (*view->shared_by)
		printf("the job has no name: its limits are shared by all processes of %s\n",
		       view->shared_by);
}

static const char *report_name_of(const struct segment_view *view, int device, char *buf,
                                  size_t size)
{
	(void)buf;
	(void)size;
	return view->device[device].name;
}

static const char *device_charged(const struct segment_view *view, int device, char *buf,
                                  size_t size)
{
	return units_format_size(view->charged[device][SEGMENT_ON_DEVICE], buf, size);
}

static const char *host_charged(const struct segment_view *view, int device, char *buf, size_t size)
{
	return units_format_size(view->charged[device][SEGMENT_ON_HOST], buf, size);
}

static const struct device_column memory[] = {
    {"<NAME", 0, report_name_of},
    {"USED", 0, device_charged},
    DEVICE_COUNTER("PEAK", device_peak),
    DEVICE_COUNTER("LIMIT SET", limit_set),
    DEVICE_COUNTER("LIMIT HELD", limit_held),
    {"HOST USED", 0, host_charged},
    DEVICE_COUNTER("HOST PEAK", host_peak),
    DEVICE_COUNTER("SPILLS", spills),
    DEVICE_COUNTER("SPILLED", spilled_bytes),
    {0},
};

static const char *busy(const struct segment_view *view, int device, char *buf, size_t size)
{
	return value_busy(&view->job_total[device], buf, size);
}

/* Of the job that is printed, as node_find_apart() has it. */
static bool report_apart[SEGMENT_DEVICES];

static const char *share_held(const struct segment_view *view, int device, char *buf, size_t size)
{
	if (!jobs_live_process(view))
		return "-";
	return value_share_held(&view->job_total[device], report_apart[device], buf, size);
}

static bool report_has_estimate(const struct segment_view *view)
{
	for (int i = 0; i < view->device_count && jobs_live_process(view); i++)
		if (counter_held_is_known(&view->job_total[i]) &&
		    view->job_total[i].share_estimated)
			return true;
	return false;
}

static const char *paused(const struct segment_view *view, int device, char *buf, size_t size)
{
	(void)buf;
	(void)size;
	const struct statistics *total = &view->job_total[device];

	return total->paused || !total->share_set ? "yes" : "no";
}

static const char *report_step(const struct segment_view *view, int device, char *buf, size_t size)
{
	uint64_t ns = view->job_total[device].step_ns;

	return ns ? units_format_duration(ns, buf, size) : "-";
}

static const char *steps(const struct segment_view *view, int device, char *buf, size_t size)
{
	return value_steps(&view->job_total[device], buf, size);
}

/* Prints the limits that something else enforces, where each comes from, and the reserve. */
static void report_print_outside(int gpu, const struct statistics *of)
{
	static const char *const from[][2] = {
	    [SOURCE_CGROUP] = {"dmem.max of its cgroup", "dmem.min of its cgroup"},
	    [SOURCE_PARENT] = {"dmem.max of a cgroup above its own",
	                       "dmem.min of a cgroup above its own"},
	    [SOURCE_NVML] = {"NVML", "NVML"},
	};
	const uint64_t sources[] = {of->hard_from, of->soft_from};
	const uint64_t bytes[] = {of->hard_limit, of->soft_limit};
	char size[32];

	for (size_t i = 0; i < 2; i++)
		if (sources[i] && sources[i] < sizeof from / sizeof *from)
			printf(
			    "gpu %d: %s limit %s (%s): the driver %s\n", gpu, i ? "soft" : "hard",
			    units_format_size(bytes[i], size, sizeof size), from[sources[i]][i],
			    i ? "may end a process that holds more" : "refuses memory beyond it");
	if (of->reserve)
		printf("gpu %d: %s are left free ([ceiling] reserve)\n", gpu,
		       units_format_size(of->reserve, size, sizeof size));
}

/*
 * Prints for each GPU why memory is on the host, the driver's own memory, the limit of a peak that
 * is more than the limit now, and the reason of the job's last refusal.
 */
static void report_print_notes(const struct segment_view *view)
{
	char text[400], size[32], why[ON_HOST_TEXT];

	for (int i = 0; i < view->device_count; i++) {
		const struct statistics *of = &view->job_total[i];

		if (on_host_text(view, i, why))
			printf(
			    "gpu %d: %s on the host: %s\n", i,
			    units_format_size(view->charged[i][SEGMENT_ON_HOST], size, sizeof size),
			    *why ? why : "no reason is known");
		if (of->driver_used) {
			printf("gpu %d: %s used", i,
			       units_format_size(of->device_used, size, sizeof size));
			refused_driver_s(stdout, of->driver_used);
			printf("\n");
		}
		report_print_outside(i, of);
		if (of->device_peak > of->limit_set && view->limit_most[i] > of->limit_set)
			printf("gpu %d: the highest limit of this run was %s\n", i,
			       value_limit(view->limit_most[i], size, sizeof size));
		if (of->refused_at)
			printf("gpu %d: the latest of %" PRIu64 " refusals, at %s: %s\n", i,
			       of->refusals, time_text(of->refused_at, size, sizeof size),
			       refused_latest(of, text, sizeof text));
	}
}

static const struct device_column pace[] = {
    DEVICE_COUNTER("LAUNCHES", launches),
    DEVICE_COUNTER("GRAPHS", graph_launches),
    {"BUSY", 0, busy},
    DEVICE_COUNTER("IDLE", idle_ns),
    DEVICE_COUNTER("SLOTS", idle_slots),
    DEVICE_COUNTER("SHARE", share_set),
    {"HELD", 0, share_held},
    {"PAUSED", 0, paused},
    {"STEPS", 0, steps},
    {"STEP", 0, report_step},
    DEVICE_COUNTER("REFUSED", refusals),
    {0},
};

/* Names the state of a process. No process waits for memory of an ended job that drains. */
static const char *state_name(const struct segment_view *view,
                              const struct segment_process *process)
{
	if (process->state == SLOT_LIVE)
		return "live";
	return jobs_live_process(view) ? "draining" : "ended";
}

/* Adds a cell of a count. Negative: not known. */
static void cell_count(struct table *table, int count)
{
	if (count < 0)
		table_cell(table, "-");
	else
		table_cell(table, "%d", count);
}

static void print_processes(const struct segment_view *view)
{
	static const char *const headings[] = {"PID",         "<STATE",   "DEVICE",  "HOST",
	                                       "ALLOCATIONS", "LAUNCHES", "THREADS", "CONTEXTS",
	                                       "<COMMAND",    NULL};
	struct table table;

	table_start(&table, headings);
	table.folds = true;
	for (int i = 0; i < view->process_count; i++) {
		const struct segment_process *process = &view->process[i];
		struct statistics all = {0};
		char size[32];

		for (int device = 0; device < view->device_count; device++) {
#define X(name, how, unit, meaning) all.name += process->device[device].name;
			STATISTICS(X)
#undef X
		}
		table_cell(&table, "%d", (int)process->pid);
		table_cell(&table, "%s", state_name(view, process));
		table_cell(&table, "%s", units_format_size(all.device_used, size, sizeof size));
		table_cell(&table, "%s", units_format_size(all.host_used, size, sizeof size));
		table_cell(&table, "%" PRIu64, all.allocations);
		table_cell(&table, "%" PRIu64, all.launches);
		cell_count(&table, process->threads);
		cell_count(&table, process->contexts);
		table_cell(&table, "%s", process->command);
	}
	table_end(&table, stdout);
}

static void print_complaints(const struct segment_view *view)
{
	for (int i = 0; i < view->process_count; i++) {
		const struct segment_process *process = &view->process[i];

		if (!*process->complaint)
			continue;
		/* each with its process, so that no line looks like one of the report */
		for (const char *line = process->complaint; *line;) {
			int length = (int)strcspn(line, "\n");

			printf("process %d says: %.*s\n", (int)process->pid, length, line);
			line += length + (line[length] == '\n');
		}
	}
}

void report_text(const struct segment_view *view)
{
	print_job(view);
	if (view->device_count) {
		printf("\n");
		device_table(view, memory);
		report_moves(view);
		printf("\n");
		node_find_apart(view, NULL, report_apart);
		device_table(view, pace);
		if (memchr(report_apart, 1, sizeof report_apart))
			value_explain_apart(stdout);
		else if (report_has_estimate(view))
			value_explain_estimated(stdout);
		report_print_notes(view);
		report_sharing(view);
	}
	if (view->process_count) {
		printf("\n");
		print_processes(view);
	}
	print_complaints(view);
}

/* Bytes or null: an absent limit, an unknown value. */
static void json_limit(struct json *json, const char *key, uint64_t bytes)
{
	if (bytes == CONFIG_UNLIMITED)
		json_null(json, key);
	else
		json_number(json, key, bytes);
}

static void json_statistics(struct json *json, const struct statistics *statistics)
{
	for (const struct counter *counter = counters; counter->name; counter++) {
		const char *word;
		uint64_t value;
		bool known = counter_read(counter, statistics, &value);

		word = counter_word(counter, value);
		if (!known)
			json_null(json, counter->name);
		else if (counter_is_code(counter))
			json_text(json, counter->name, word ? word : "unknown");
		else
			json_number(json, counter->name, value);
	}
}

/* Adds a number of a count. Negative: not known. */
static void json_count(struct json *json, const char *key, int count)
{
	if (count < 0)
		json_null(json, key);
	else
		json_number(json, key, (uint64_t)count);
}

static void report_json_process(struct json *json, const struct segment_view *view,
                                const struct segment_process *process)
{
	char hash[17];

	snprintf(hash, sizeof hash, "%016" PRIx64, process->override_hash);
	json_open(json, NULL, '{');
	json_number(json, "pid", (uint64_t)process->pid);
	json_text(json, "command", process->command);
	json_text(json, "state", state_name(view, process));
	json_number(json, "started_ns", process->started_ns);
	json_count(json, "threads", process->threads);
	json_count(json, "contexts", process->contexts);
	json_text(json, "override_hash", hash);
	json_text(json, "complaint", process->complaint);
	json_open(json, "devices", '[');
	for (int i = 0; i < view->device_count; i++) {
		json_open(json, NULL, '{');
		json_statistics(json, &process->device[i]);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_close(json, '}');
}

/* Writes the token, which tells the job from another of the same user and name. */
static void json_token(struct json *json, uint64_t token)
{
	char text[24];

	snprintf(text, sizeof text, "%016" PRIx64, token);
	json_text(json, "token", text);
}

static void json_device(struct json *json, const struct segment_device *device,
                        const uint64_t charged[2])
{
	json_text(json, "name", device->name);
	json_text(json, "uuid", device->uuid);
	json_text(json, "pci_bus_id", device->pci_bus_id);
	json_number(json, "memory", device->memory);
	json_number(json, "device_charged", charged[SEGMENT_ON_DEVICE]);
	json_number(json, "host_charged", charged[SEGMENT_ON_HOST]);
}

/* Writes a sentence; an empty one is none. */
static void report_json_sentence(struct json *json, const char *key, const char *sentence)
{
	if (sentence && *sentence)
		json_text(json, key, sentence);
	else
		json_null(json, key);
}

/* Writes the sentences of `stat JOB` about memory on the host and about the latest refusal. */
static void report_json_sentences(struct json *json, const struct segment_view *view, int gpu)
{
	const struct statistics *total = &view->job_total[gpu];
	char host[ON_HOST_TEXT], refused[400];

	report_json_sentence(json, "host_text", on_host_text(view, gpu, host));
	report_json_sentence(json, "refused_text",
	                     total->refused_at ? refused_latest(total, refused, sizeof refused)
	                                       : NULL);
}

static void report_json_change(struct json *json, const char *job)
{
	struct jobs_change change;
	char by[NODE_USER_MAX];

	if (!jobs_last_change(job, &change)) {
		json_null(json, "change");
		return;
	}
	json_open(json, "change", '{');
	json_number(json, "at_ns", change.at_ns);
	json_text(json, "by", node_user(change.by, by, sizeof by));
	json_text(json, "through", change.through);
	json_close(json, '}');
}

void report_json(struct json *json, const struct segment_view *view, const char *user,
                 const struct node_jobs *jobs)
{
	bool is_apart[SEGMENT_DEVICES];

	node_find_apart(view, jobs, is_apart);
	json_text(json, "job", view->job);
	json_token(json, view->token);
	json_text(json, "state", jobs_live_process(view) ? "running" : "ended");
	json_text(json, "user", user);
	json_text(json, "labels", view->labels);
	json_text(json, "shared_by", view->shared_by);
	json_number(json, "created_ns", view->created_ns);
	json_limit(json, "ended_ns", view->ended_ns ? view->ended_ns : CONFIG_UNLIMITED);
	report_json_change(json, view->job);
	json_open(json, "devices", '[');
	for (int i = 0; i < view->device_count; i++) {
		json_open(json, NULL, '{');
		json_device(json, &view->device[i], view->charged[i]);
		json_number(json, "device_orphaned", view->orphaned[i]);
		json_statistics(json, &view->job_total[i]);
		report_json_sentences(json, view, i);
		json_bool(json, "share_apart", is_apart[i]);
		report_sharing_json(json, view, i);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_open(json, "processes", '[');
	for (int i = 0; i < view->process_count; i++)
		report_json_process(json, view, &view->process[i]);
	json_close(json, ']');
}

static void json_node_device(struct json *json, const struct page_device *device)
{
	json_open(json, NULL, '{');
	json_device(json, &device->device, device->charged);
	/* without a limit the share is unknown, too: no process has met the device */
	json_limit(json, "limit_set", device->limit ? device->limit : CONFIG_UNLIMITED);
	json_limit(json, "share_set", device->limit ? device->share : CONFIG_UNLIMITED);
	json_close(json, '}');
}

/* Writes "node_jobs": those of which only the pages are known. */
static void report_node_json(struct json *json, const struct node_jobs *jobs)
{
	json_open(json, "node_jobs", '[');
	for (int i = 0; i < jobs->count; i++) {
		const struct page *page = &jobs->job[i].page;

		json_open(json, NULL, '{');
		json_text(json, "job", page->job);
		json_token(json, page->token);
		json_text(json, "state", jobs->job[i].running ? "running" : "ended");
		json_text(json, "user", jobs->job[i].user);
		json_number(json, "uid", jobs->job[i].owner);
		json_text(json, "labels", page->labels);
		json_text(json, "state_directory", page->directory);
		json_number(json, "created_ns", page->created_ns);
		json_number(json, "process_count", jobs->job[i].running ? page->processes : 0);
		json_open(json, "devices", '[');
		for (uint32_t device = 0; device < page->device_count; device++)
			json_node_device(json, &page->device[device]);
		json_close(json, ']');
		json_close(json, '}');
	}
	json_close(json, ']');
}

/* Writes "gpus": the machine's, as NVML tells of them. */
static void report_gpus_json(struct json *json)
{
	struct gpus gpus;

	gpus_read(&gpus);
	json_open(json, "gpus", '[');
	for (int i = 0; i < gpus.count; i++) {
		json_open(json, NULL, '{');
		json_text(json, "uuid", gpus.gpu[i].uuid);
		json_number(json, "memory", gpus.gpu[i].memory);
		json_number(json, "device_used", gpus.gpu[i].used);
		json_close(json, '}');
	}
	json_close(json, ']');
}

bool report_all_json(FILE *out, const char *job, struct unmanaged *unmanaged)
{
	struct json json = {.out = out};
	char directory[PATH_MAX];
	struct reach_walk walk = reach_walk(job);
	struct node_jobs others = {0};
	bool is_whole = true;

	json_open_document(&json);
	json_text(&json, "state_directory", directory_path(directory, sizeof directory));
	json_open(&json, "jobs", '[');
	while (reach_next(&walk)) {
		if (walk.view) {
			json_open(&json, NULL, '{');
			report_json(&json, walk.view, walk.user, &walk.node);
			json_close(&json, '}');
		} else if (walk.page) {
			node_jobs_add(&others, walk.page);
		} else {
			is_whole = false;
		}
	}
	json_close(&json, ']');
	report_node_json(&json, &others);
	report_gpus_json(&json);
	report_unmanaged_json(&json, unmanaged);
	json_close(&json, '}');
	node_jobs_free(&others);
	putc('\n', out);
	return is_whole;
}

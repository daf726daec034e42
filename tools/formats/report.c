/* One job as text and as JSON. */
#include "tools/formats/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/formats/report_moves.h"
#include "tools/formats/table.h"
#include "tools/view/counters.h"
#include "tools/view/jobs.h"
#include "tools/view/node.h"

const char *report_limit(uint64_t bytes, char *buf, size_t size)
{
	if (bytes != CONFIG_UNLIMITED)
		return units_format_size(bytes, buf, size);
	snprintf(buf, size, "none");
	return buf;
}

const char *report_share(uint64_t millipercent, char *buf, size_t size)
{
	snprintf(buf, size, "%g %%", (double)millipercent / 1000);
	return buf;
}

const char *report_busy(const struct statistics *total, char *buf, size_t size)
{
	if (!counter_busy_is_known(total))
		return "-";
	return units_format_duration(total->busy_ns, buf, size);
}

const char *report_share_held(const struct statistics *of, char *buf, size_t size)
{
	double percent = (double)of->share_held / 1000;

	if (!counter_held_is_known(of))
		return "-";
	/* In a column of six. */
	snprintf(buf, size, "%s%.*f%%", of->share_estimated ? "~" : "", percent < 99.95, percent);
	return buf;
}

static const char *format_time(uint64_t ns, char *buf, size_t size)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm local;

	if (!localtime_r(&seconds, &local) || !strftime(buf, size, "%Y-%m-%d %H:%M:%S", &local))
		snprintf(buf, size, "?");
	return buf;
}

static void print_job(const struct segment_view *view)
{
	char began[32], ended[32];

	format_time(view->created_ns, began, sizeof began);
	if (jobs_live_process(view))
		printf("job %s: running since %s", view->job, began);
	else if (view->ended_ns)
		printf("job %s: ended %s, began %s", view->job,
		       format_time(view->ended_ns, ended, sizeof ended), began);
	else
		printf("job %s: ended, began %s", view->job, began);
	if (*view->labels)
		printf("; labels %s", view->labels);
	printf("\n");
	if (*view->shared_by)
		printf("nobody named it: its limits are shared by all processes of %s\n",
		       view->shared_by);
}

static void print_memory(const struct segment_view *view)
{
	static const char *const headings[] = {"GPU",       "<NAME",      "USED",      "PEAK",
	                                       "LIMIT SET", "LIMIT HELD", "HOST USED", "HOST PEAK",
	                                       "SPILLS",    "SPILLED",    "WHY",       NULL};
	struct table table;

	table_start(&table, headings);
	for (int i = 0; i < view->device_count; i++) {
		const struct statistics *total = &view->job_total[i];
		char size[32];

		table_cell(&table, "%d", i);
		table_cell(&table, "%s", view->device[i].name);
		table_cell(
		    &table, "%s",
		    units_format_size(view->charged[i][SEGMENT_ON_DEVICE], size, sizeof size));
		table_cell(&table, "%s", units_format_size(total->device_peak, size, sizeof size));
		table_cell(&table, "%s", report_limit(total->limit_set, size, sizeof size));
		table_cell(&table, "%s", report_limit(total->limit_held, size, sizeof size));
		table_cell(&table, "%s",
		           units_format_size(view->charged[i][SEGMENT_ON_HOST], size, sizeof size));
		table_cell(&table, "%s", units_format_size(total->host_peak, size, sizeof size));
		table_cell(&table, "%" PRIu64, total->spills);
		table_cell(&table, "%s",
		           units_format_size(total->spilled_bytes, size, sizeof size));
		table_cell(&table, "%s", COUNTER_WORD(total, spill_reason));
	}
	table_end(&table, stdout);
}

static void print_pace(const struct segment_view *view)
{
	static const char *const headings[] = {"GPU",   "LAUNCHES", "GRAPHS", "BUSY",   "IDLE",
	                                       "SLOTS", "SHARE",    "HELD",   "PAUSED", "STEPS",
	                                       "STEP",  "REFUSED",  NULL};
	bool runs = jobs_live_process(view) != NULL;
	struct table table;

	table_start(&table, headings);
	for (int i = 0; i < view->device_count; i++) {
		const struct statistics *total = &view->job_total[i];
		char value[32];

		table_cell(&table, "%d", i);
		table_cell(&table, "%" PRIu64, total->launches);
		table_cell(&table, "%" PRIu64, total->graph_launches);
		table_cell(&table, "%s", report_busy(total, value, sizeof value));
		table_cell(&table, "%s",
		           units_format_duration(total->idle_ns, value, sizeof value));
		table_cell(&table, "%" PRIu64, total->idle_slots);
		table_cell(&table, "%s", report_share(total->share_set, value, sizeof value));
		table_cell(&table, "%s",
		           runs ? report_share_held(total, value, sizeof value) : "-");
		table_cell(&table, "%s", total->paused ? "yes" : "no");
		table_cell(&table, "%" PRIu64, total->steps);
		table_cell(&table, "%s",
		           total->step_ns
		               ? units_format_duration(total->step_ns, value, sizeof value)
		               : "-");
		table_cell(&table, "%" PRIu64, total->refusals);
	}
	table_end(&table, stdout);
}

/* Of an ended job nobody waits for memory that drains. */
static const char *state_name(const struct segment_view *view,
                              const struct segment_process *process)
{
	if (process->state == SLOT_LIVE)
		return "live";
	return jobs_live_process(view) ? "draining" : "ended";
}

/* Negative: not known. */
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
		print_memory(view);
		report_moves(view);
		printf("\n");
		print_pace(view);
	}
	if (view->process_count) {
		printf("\n");
		print_processes(view);
	}
	print_complaints(view);
}

/* Bytes or null: a limit there is none of, a value nobody knows. */
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

/* Negative: not known. */
static void json_count(struct json *json, const char *key, int count)
{
	if (count < 0)
		json_null(json, key);
	else
		json_number(json, key, (uint64_t)count);
}

static void json_process(struct json *json, const struct segment_view *view,
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

/* What tells it from another job of the same user and name. */
static void json_token(struct json *json, uint64_t token)
{
	char text[24];

	snprintf(text, sizeof text, "%016" PRIx64, token);
	json_text(json, "token", text);
}

void report_json(struct json *json, const struct segment_view *view)
{
	char user[NODE_USER_MAX];

	json_open(json, NULL, '{');
	json_text(json, "job", view->job);
	json_token(json, view->token);
	json_text(json, "state", jobs_live_process(view) ? "running" : "ended");
	json_text(json, "user", node_user(geteuid(), user, sizeof user));
	json_text(json, "labels", view->labels);
	json_text(json, "shared_by", view->shared_by);
	json_number(json, "created_ns", view->created_ns);
	json_limit(json, "ended_ns", view->ended_ns ? view->ended_ns : CONFIG_UNLIMITED);
	json_open(json, "devices", '[');
	for (int i = 0; i < view->device_count; i++) {
		json_open(json, NULL, '{');
		json_text(json, "name", view->device[i].name);
		json_text(json, "uuid", view->device[i].uuid);
		json_text(json, "pci_bus_id", view->device[i].pci_bus_id);
		json_number(json, "memory", view->device[i].memory);
		json_number(json, "device_charged", view->charged[i][SEGMENT_ON_DEVICE]);
		json_number(json, "host_charged", view->charged[i][SEGMENT_ON_HOST]);
		json_number(json, "device_orphaned", view->orphaned[i]);
		json_statistics(json, &view->job_total[i]);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_open(json, "processes", '[');
	for (int i = 0; i < view->process_count; i++)
		json_process(json, view, &view->process[i]);
	json_close(json, ']');
	json_close(json, '}');
}

static void json_node_device(struct json *json, const struct page_device *device)
{
	json_open(json, NULL, '{');
	json_text(json, "name", device->device.name);
	json_text(json, "uuid", device->device.uuid);
	json_text(json, "pci_bus_id", device->device.pci_bus_id);
	json_number(json, "memory", device->device.memory);
	json_number(json, "device_charged", device->charged[SEGMENT_ON_DEVICE]);
	json_number(json, "host_charged", device->charged[SEGMENT_ON_HOST]);
	/* without a limit nobody knows the share, either: no process has met the device */
	json_limit(json, "limit_set", device->limit ? device->limit : CONFIG_UNLIMITED);
	json_limit(json, "share_set", device->limit ? device->share : CONFIG_UNLIMITED);
	json_close(json, '}');
}

void report_node_json(struct json *json)
{
	struct node_jobs jobs;

	node_jobs_read(&jobs);
	json_open(json, "node_jobs", '[');
	for (int i = 0; i < jobs.count; i++) {
		const struct page *page = &jobs.job[i].page;

		json_open(json, NULL, '{');
		json_text(json, "job", page->job);
		json_token(json, page->token);
		json_text(json, "state", jobs.job[i].running ? "running" : "ended");
		json_text(json, "user", jobs.job[i].user);
		json_number(json, "uid", jobs.job[i].owner);
		json_text(json, "labels", page->labels);
		json_text(json, "state_directory", page->directory);
		json_number(json, "created_ns", page->created_ns);
		json_number(json, "process_count", jobs.job[i].running ? page->processes : 0);
		json_open(json, "devices", '[');
		for (uint32_t device = 0; device < page->device_count; device++)
			json_node_device(json, &page->device[device]);
		json_close(json, ']');
		json_close(json, '}');
	}
	json_close(json, ']');
	node_jobs_free(&jobs);
}

/* spillway stat: jobs of this state directory, or one of them in full, once or again and again. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/units.h"
#include "core/state/directory.h"
#include "tools/arguments.h"
#include "tools/jobs.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/tool.h"

struct stat_options {
	const char *job;
	bool json;
	uint64_t watch_ns; /* 0: once */
};

enum { OPTION_JSON = 0x200, OPTION_WATCH };

static const struct argp_option options[] = {
    {"json", OPTION_JSON, NULL, 0, "One JSON document per line", 0},
    {"watch", OPTION_WATCH, "SECONDS", 0, "Again and again, in this interval", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct stat_options *stat = state->input;

	switch (key) {
	case OPTION_JSON:
		stat->json = true;
		return 0;
	case OPTION_WATCH:
		stat->watch_ns = arguments_duration("watch", argument);
		if (stat->watch_ns == 0)
			usage_error("--watch '%s': expected more than 0", argument);
		return 0;
	case ARGP_KEY_ARG:
		arguments_job(&stat->job, argument);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[JOB]",
    .doc = "Shows all jobs, or one with its GPUs and processes.",
};

/* One row per job and GPU, so that every figure has one meaning. */
static void print_row(struct table *table, const struct segment_view *view, int device)
{
	const struct statistics *total = &view->job_total[device];
	char value[32];

	table_cell(table, "%s", view->job);
	table_cell(table, "%s", jobs_live_process(view) ? "running" : "ended");
	table_cell(table, "%d", view->process_count);
	if (device >= view->device_count) {
		table_cell(table, "-");
		for (int i = 0; i < 7; i++)
			table_cell(table, " ");
		return;
	}
	table_cell(table, "%d", device);
	table_cell(
	    table, "%s",
	    units_format_size(view->charged[device][SEGMENT_ON_DEVICE], value, sizeof value));
	table_cell(table, "%s", report_limit(total->limit_set, value, sizeof value));
	table_cell(table, "%s",
	           units_format_size(view->charged[device][SEGMENT_ON_HOST], value, sizeof value));
	table_cell(table, "%s", units_format_size(total->spilled_bytes, value, sizeof value));
	table_cell(table, "%s", report_share(total->share_set, value, sizeof value));
	table_cell(table, "%s", units_format_duration(total->busy_ns, value, sizeof value));
	table_cell(table, "%s", units_format_duration(total->idle_ns, value, sizeof value));
}

static void print_list(struct segment_view *const *views, int count)
{
	static const char *const headings[] = {"<JOB",  "<STATE", "PROCESSES", "GPU",
	                                       "USED",  "LIMIT",  "HOST",      "SPILLED",
	                                       "SHARE", "BUSY",   "IDLE",      NULL};
	char directory[PATH_MAX];
	struct table table;

	if (count == 0) {
		printf("no jobs in %s\n", directory_path(directory, sizeof directory));
		return;
	}
	table_start(&table, headings);
	for (int i = 0; i < count; i++) {
		int rows = views[i]->device_count ? views[i]->device_count : 1;

		for (int device = 0; device < rows; device++)
			print_row(&table, views[i], device);
	}
	table_end(&table, stdout);
}

static void json_list(struct segment_view *const *views, int count)
{
	struct json json = {.out = stdout};
	char directory[PATH_MAX];

	json_open(&json, NULL, '{');
	json_text(&json, "state_directory", directory_path(directory, sizeof directory));
	json_open(&json, "jobs", '[');
	for (int i = 0; i < count; i++)
		report_json(&json, views[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	putchar('\n');
}

/* A segment that cannot be read is said on stderr; the others are shown. */
static int show_all(bool as_json)
{
	struct job_list list;
	struct segment_view **views;
	int count = 0;
	int status = TOOL_OK;

	jobs_list(&list);
	views = allocate((list.count + 1) * sizeof *views);
	for (int i = 0; i < list.count; i++) {
		views[count] = jobs_read(list.name[i]);
		if (views[count])
			count++;
		else
			status = TOOL_FAILED;
	}
	(as_json ? json_list : print_list)(views, count);
	for (int i = 0; i < count; i++)
		free(views[i]);
	free(views);
	jobs_list_free(&list);
	return status;
}

static int show_one(const char *job, bool as_json)
{
	struct segment_view *view = jobs_read(job);
	struct json json = {.out = stdout};

	if (!view)
		return TOOL_FAILED;
	if (as_json) {
		report_json(&json, view);
		putchar('\n');
	} else {
		report_text(view);
	}
	free(view);
	return TOOL_OK;
}

static void wait_and_clear(const struct stat_options *stat)
{
	struct timespec pause = {.tv_sec = (time_t)(stat->watch_ns / 1000000000),
	                         .tv_nsec = (long)(stat->watch_ns % 1000000000)};

	nanosleep(&pause, NULL);
	if (stat->json)
		return;
	fputs(isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "\n", stdout);
}

int command_stat(int argc, char **argv)
{
	struct stat_options stat = {0};

	arguments_read("spillway stat", &argp, argc, argv, &stat);
	for (;;) {
		int status = stat.job ? show_one(stat.job, stat.json) : show_all(stat.json);

		if (fflush(stdout) != 0 || ferror(stdout))
			fail("writing: output is closed");
		if (!stat.watch_ns || status != TOOL_OK)
			return status;
		wait_and_clear(&stat);
	}
}

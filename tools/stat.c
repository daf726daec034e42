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
	table_cell(table, "%d", jobs_live_count(view));
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
	table_cell(table, "%s", report_busy(total, value, sizeof value));
	table_cell(table, "%s", units_format_duration(total->idle_ns, value, sizeof value));
}

static void print_jobs(const struct job_list *list, int *status)
{
	static const char *const headings[] = {"<JOB",  "<STATE", "PROCESSES", "GPU",
	                                       "USED",  "LIMIT",  "HOST",      "SPILLED",
	                                       "SHARE", "BUSY",   "IDLE",      NULL};
	struct table table;

	table_start(&table, headings);
	for (int i = 0; i < list->count; i++) {
		struct segment_view *view = jobs_read(list->name[i]);

		if (!view) {
			*status = TOOL_FAILED;
			continue;
		}
		print_row(&table, view, 0);
		for (int device = 1; device < view->device_count; device++)
			print_row(&table, view, device);
		free(view);
	}
	table_end(&table, stdout);
}

static void json_jobs(const struct job_list *list, const char *directory, int *status)
{
	struct json json = {.out = stdout};

	json_open(&json, NULL, '{');
	json_text(&json, "state_directory", directory);
	json_open(&json, "jobs", '[');
	for (int i = 0; i < list->count; i++) {
		struct segment_view *view = jobs_read(list->name[i]);

		if (view)
			report_json(&json, view);
		else
			*status = TOOL_FAILED;
		free(view);
	}
	json_close(&json, ']');
	json_close(&json, '}');
	putchar('\n');
}

/* A segment that cannot be read is said on stderr; the others are shown. */
static int show_all(bool as_json)
{
	char directory[PATH_MAX];
	struct job_list list;
	int status = TOOL_OK;

	directory_path(directory, sizeof directory);
	jobs_list(&list);
	if (as_json)
		json_jobs(&list, directory, &status);
	else if (list.count)
		print_jobs(&list, &status);
	else
		printf("no jobs in %s\n", directory);
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

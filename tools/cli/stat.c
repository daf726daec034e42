/* SPDX-License-Identifier: MIT */
/* spillway stat: all jobs of the node, or one in full, in several forms. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/state/directory.h"
#include "tools/cli/commands.h"
#include "tools/cli/resources.h"
#include "tools/formats/serve.h"
#include "tools/formats/formats.h"
#include "tools/formats/output.h"
#include "tools/formats/report.h"
#include "tools/formats/report_unmanaged.h"
#include "tools/formats/value.h"
#include "tools/formats/table.h"
#include "tools/view/arguments.h"
#include "tools/view/counters.h"
#include "tools/view/jobs.h"
#include "tools/view/reach.h"
#include "tools/view/rows.h"
#include "tools/view/tool.h"
#include "tools/web/web.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV, FORMAT_PROMETHEUS, FORMAT_ANTMAN };

struct stat_options {
	const char *job;
	enum format format;
	bool is_given; /* the format */
	bool header, units;
	bool resources, refused;
	bool all;               /* ended jobs, too */
	struct handle *handles; /* to be looked up */
	size_t handle_count;
	const char *listen, *textfile;
	bool page;
	uint64_t watch_ns; /* 0: once */
};

static void stat_choose(struct stat_options *stat, enum format format)
{
	if (stat->is_given && stat->format != format)
		usage_error("expected one format; --listen and --textfile have prometheus");
	stat->is_given = true;
	stat->format = format;
}

static void parse_csv(struct stat_options *stat, const char *format)
{
	const char *part = strchr(format, ',');

	stat_choose(stat, FORMAT_CSV);
	stat->header = stat->units = true;
	while (part) {
		size_t length = strcspn(++part, ",");

		if (length == 8 && strncmp(part, "noheader", length) == 0)
			stat->header = false;
		else if (length == 7 && strncmp(part, "nounits", length) == 0)
			stat->units = false;
		else
			usage_error("--format '%s': expected csv, with ,noheader or ,nounits or "
			            "both",
			            format);
		part = part[length] ? part + length : NULL;
	}
}

static void take_format(const struct argument *argument, const char *format)
{
	struct stat_options *stat = argument->into;
	static const char *const names[] = {
	    [FORMAT_TEXT] = "text",     [FORMAT_JSON] = "json",
	    [FORMAT_CSV] = "csv",       [FORMAT_PROMETHEUS] = "prometheus",
	    [FORMAT_ANTMAN] = "antman",
	};

	if (strncmp(format, "csv,", 4) == 0 || strcmp(format, "csv") == 0) {
		parse_csv(stat, format);
		return;
	}
	for (int i = 0; i <= FORMAT_ANTMAN; i++) {
		if (strcmp(format, names[i]) == 0) {
			stat_choose(stat, i);
			return;
		}
	}
	usage_error("--format '%s': expected text, json, csv[,noheader][,nounits], prometheus or "
	            "antman",
	            format);
}

static void check_together(const struct stat_options *stat)
{
	if (stat->listen && stat->textfile)
		usage_error("--listen and --textfile: expected one of them");
	if (stat->listen && stat->watch_ns)
		usage_error("--watch: expected without --listen, which reads at every request");
	if (stat->page && !stat->listen)
		usage_error("--page: expected --listen");
	if ((stat->listen || stat->textfile) && stat->is_given && stat->format != FORMAT_PROMETHEUS)
		usage_error("--%s: expected the format prometheus",
		            stat->listen ? "listen" : "textfile");
	if (stat->resources && (!stat->job || *stat->job == '/'))
		usage_error("--resources: expected a job, and then handles");
	if (stat->refused &&
	    (!stat->job || *stat->job == '/' || stat->resources || stat->format != FORMAT_TEXT))
		usage_error("--refused: expected a job, and the format text");
	if (stat->all && stat->job)
		usage_error("--all: expected without a job");
	if (stat->handle_count && !stat->resources)
		usage_error("a handle: expected --resources, which looks it up");
	if (stat->resources && stat->format != FORMAT_TEXT && stat->format != FORMAT_JSON)
		usage_error("--resources: expected the format text or json");
	if (stat->format == FORMAT_ANTMAN && !stat->job)
		usage_error("--format antman: expected a job");
}

/* Adds a handle, which stands behind the job: one that is to be looked up. */
static void stat_add_handle(struct stat_options *stat, const char *argument)
{
	struct handle handle;

	if (handle_parse(argument, &handle) != 0)
		usage_error("'%s': expected a handle, such as "
		            "/job:bert/process:4711/gpu:0/ctx1/allocation/00007f0000000000",
		            argument);
	stat->handles = reallocarray(stat->handles, stat->handle_count + 1, sizeof handle);
	if (!stat->handles)
		fail("out of memory");
	stat->handles[stat->handle_count++] = handle;
}

static void take_json(const struct argument *argument, const char *value)
{
	(void)value;
	stat_choose(argument->into, FORMAT_JSON);
}

static void take_listen(const struct argument *argument, const char *address)
{
	struct stat_options *stat = argument->into;

	serve_check(address);
	stat->listen = address;
	stat_choose(stat, FORMAT_PROMETHEUS);
}

static void take_textfile(const struct argument *argument, const char *file)
{
	struct stat_options *stat = argument->into;

	if (!*file)
		usage_error("--textfile '': expected a file");
	stat->textfile = file;
	stat_choose(stat, FORMAT_PROMETHEUS);
}

static void take_watch(const struct argument *argument, const char *value)
{
	argument_duration(argument, value);
	if (*(uint64_t *)argument->into == 0)
		usage_error("--watch '%s': expected more than 0", value);
}

static void stat_read_command_line(struct stat_options *stat, int argc, char **argv)
{
	const struct argument options[] = {
	    {"all", 'a', NULL, "List jobs that have ended, too", argument_flag, &stat->all},
	    {"json", 0, NULL, "One JSON document per line", take_json, stat},
	    {"format", 0, "text|json|csv[,noheader][,nounits]|prometheus|antman",
	     "As tables, or for programs", take_format, stat},
	    {"listen", 0, "ADDRESS:PORT", "Serve Prometheus' format over HTTP", take_listen, stat},
	    {"page", 0, NULL, "Serve the page of spillway web there, too", argument_flag,
	     &stat->page},
	    {"textfile", 0, "FILE", "Write Prometheus' format to a file", take_textfile, stat},
	    {"resources", 0, NULL,
	     "What the job's processes hold, each with bytes and age; of HANDLEs, those that are "
	     "there",
	     argument_flag, &stat->resources},
	    {"refused", 0, NULL, "The job's latest refusals of memory, and what held it",
	     argument_flag, &stat->refused},
	    {"watch", 0, "SECONDS", "Again and again, in this interval", take_watch,
	     &stat->watch_ns},
	    {0},
	};
	const struct command_line line = {
	    .command = "spillway stat",
	    .operands = "[JOB [HANDLE...]]",
	    .about = "Shows running jobs, or one job with its GPUs and processes.",
	    .options = options,
	};
	char **operands = arguments_read(&line, argc, argv);

	stat->job = *operands;
	while (*operands && *++operands) {
		if (**operands != '/')
			usage_error("'%s': expected one job", *operands);
		stat_add_handle(stat, *operands);
	}
	check_together(stat);
	stat->job = arguments_reach(stat->job);
}

/* Says a job's state. Of a paused one a reader would else have to know that SHARE is 0 %. */
static const char *state_of(const struct row *row)
{
	bool is_known = row->gpu >= 0 && (!row->is_of_page || row->total.limit_set);

	if (!row->running)
		return "ended";
	return is_known && row->total.share_set == 0 ? "paused" : "running";
}

static void table_row(struct table *table, const struct row *row)
{
	const struct statistics *total = &row->total;
	bool is_known = !row->is_of_page || total->limit_set;
	char value[32];

	table_cell(table, "%s", row->typed);
	table_cell(table, "%s", row->user);
	table_cell(table, "%s", state_of(row));
	table_cell(table, "%d", row->processes);
	if (row->gpu < 0) {
		table_cell(table, "-");
		for (int i = 0; i < 8; i++)
			table_cell(table, " ");
		table_cell(table, "%s", *row->labels ? row->labels : "-");
		return;
	}
	table_cell(table, "%d", row->gpu);
	table_cell(table, "%s",
	           units_format_size(row->charged[SEGMENT_ON_DEVICE], value, sizeof value));
	table_cell(table, "%s",
	           is_known ? value_limit(total->limit_set, value, sizeof value) : "-");
	table_cell(table, "%s",
	           units_format_size(row->charged[SEGMENT_ON_HOST], value, sizeof value));
	table_cell(table, "%s",
	           row->is_of_page ? "-"
	                           : units_format_size(total->spilled_bytes, value, sizeof value));
	table_cell(table, "%s",
	           is_known ? value_share(total->share_set, value, sizeof value) : "-");
	if (row->is_of_page) {
		for (int i = 0; i < 3; i++)
			table_cell(table, "-");
	} else {
		table_cell(table, "%s",
		           row->running
		               ? value_share_held(total, row->is_apart, value, sizeof value)
		               : "-");
		table_cell(table, "%s", value_busy(total, value, sizeof value));
		table_cell(table, "%s", units_format_duration(total->idle_ns, value, sizeof value));
	}
	table_cell(table, "%s", *row->labels ? row->labels : "-");
}

/* Says how many jobs the list leaves out because they have ended. */
static void stat_print_ended(int ended)
{
	if (ended)
		printf("%d %s ended: 'spillway stat --all' lists %s\n", ended,
		       ended == 1 ? "job has" : "jobs have", ended == 1 ? "it" : "them");
}

static void stat_print_none(void)
{
	char directory[PATH_MAX];

	printf("no jobs in %s", directory_path(directory, sizeof directory));
	if (access(directory_of_node(directory, sizeof directory), F_OK) != 0)
		printf("; jobs elsewhere are not seen without %s: see spillway doctor", directory);
	printf("\n");
}

static void stat_print_table(const struct rows *rows, bool all)
{
	static const char *const headings[] = {"<JOB", "<USER", "<STATE", "PROCESSES", "GPU",
	                                       "USED", "LIMIT", "HOST",   "SPILLED",   "SHARE",
	                                       "HELD", "BUSY",  "IDLE",   "<LABELS",   NULL};
	/* SPILLED, BUSY, IDLE, PROCESSES, LABELS, USER: `stat JOB` has them */
	static const int dispensable[] = {8, 11, 12, 3, 13, 1, 0};
	struct table table;
	bool is_any_apart = false, is_any_estimated = false;
	int ended = 0, listed = 0;

	table_start(&table, headings);
	table.dispensable = dispensable;
	for (int i = 0; i < rows->count; i++) {
		const struct row *row = &rows->row[i];

		if (!row->running && !all) {
			ended += row->gpu <= 0; /* once per job */
			continue;
		}
		table_row(&table, row);
		listed++;
		is_any_apart |= row->is_apart;
		is_any_estimated |= row->running && !row->is_of_page &&
		                    row->total.share_estimated &&
		                    counter_held_is_known(&row->total);
	}
	if (rows->count == 0 && rows->unreadable == 0)
		stat_print_none();
	else if (listed == 0 && ended)
		printf("no job runs\n");
	else
		table_end(&table, stdout);
	stat_print_ended(ended);
	if (is_any_apart)
		value_explain_apart(stdout);
	else if (is_any_estimated)
		value_explain_estimated(stdout);
}

/* Writes the text file. Whoever collects it reads it, so that it is nobody's secret: 0644. */
static void write_textfile(const char *path, const struct rows *rows)
{
	struct output file;

	if (!output_begin(&file, path, 0644))
		exit(TOOL_FAILED);
	format_prometheus(file.out, rows);
	if (!output_end(&file))
		exit(TOOL_FAILED);
}

static void print_rows(const struct stat_options *stat, const struct rows *rows, bool first)
{
	if (stat->textfile)
		write_textfile(stat->textfile, rows);
	else if (stat->format == FORMAT_CSV)
		format_csv(stdout, rows, stat->header && first, stat->units);
	else if (stat->format == FORMAT_PROMETHEUS)
		format_prometheus(stdout, rows);
	else if (stat->format == FORMAT_ANTMAN)
		format_antman(stdout, rows);
	else
		stat_print_table(rows, stat->all);
}

/* Shows all jobs. One that cannot be read is said on stderr; the others are shown. */
static int show_rows(const struct stat_options *stat, bool first)
{
	struct rows rows;
	bool whole;

	rows_read(&rows, stat->job);
	whole = rows.unreadable == 0;
	if (whole || !stat->job)
		print_rows(stat, &rows, first);
	rows_free(&rows);
	if (stat->format == FORMAT_TEXT && !stat->textfile && !stat->job)
		report_unmanaged();
	return whole ? TOOL_OK : TOOL_FAILED;
}

/* Prints the lines that the job's processes have kept (core/modules/holders). */
static int show_refused(const char *job)
{
	char path[PATH_MAX], line[1024];
	FILE *in = directory_refused_path(job, path, sizeof path) == 0 ? fopen(path, "re") : NULL;

	if (!in) {
		printf("no memory was refused\n");
		return TOOL_OK;
	}
	while (fgets(line, sizeof line, in))
		fputs(printable_lines(line), stdout);
	fclose(in);
	return TOOL_OK;
}

static int show_one(const struct stat_options *stat, bool as_json)
{
	struct segment_view *view = jobs_read(stat->job);
	int status = TOOL_OK;
	struct json json = {.out = stdout};
	char user[NODE_USER_MAX];

	if (!view)
		return TOOL_FAILED;
	if (stat->handle_count) {
		status = resources_look_up(view, stat->handles, stat->handle_count, as_json);
	} else if (stat->refused) {
		status = show_refused(view->job);
	} else if (stat->resources) {
		status = resources_show(view, as_json);
	} else if (as_json) {
		json_open_document(&json);
		report_json(&json, view, node_user(geteuid(), user, sizeof user), NULL);
		json_close(&json, '}');
		putchar('\n');
	} else {
		report_text(view);
	}
	segment_view_free(view);
	return status;
}

static void write_metrics(FILE *out, const char *job)
{
	struct rows rows;

	rows_read(&rows, job);
	format_prometheus(out, &rows);
	rows_free(&rows);
}

static int stat_show(const struct stat_options *stat, bool first)
{
	bool as_json = stat->format == FORMAT_JSON;
	int status;

	if (stat->job && (as_json || stat->format == FORMAT_TEXT))
		status = show_one(stat, as_json);
	else if (as_json)
		status = report_all_json(stdout, NULL, NULL) ? TOOL_OK : TOOL_FAILED;
	else
		status = show_rows(stat, first);
	output_flush();
	return status;
}

static void wait_and_clear(const struct stat_options *stat)
{
	deadline_sleep(stat->watch_ns);
	if (stat->format == FORMAT_TEXT && !stat->textfile)
		fputs(isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "\n", stdout);
}

int command_stat(int argc, char **argv)
{
	struct stat_options stat = {0};
	bool first = true;

	stat_read_command_line(&stat, argc, argv);
	if (stat.listen)
		web_export(stat.listen, stat.job, stat.page, write_metrics);
	for (;;) {
		int status = stat_show(&stat, first);

		/* One of all jobs that cannot be read ends nothing: its neighbours live on. */
		if (!stat.watch_ns || (status != TOOL_OK && stat.job))
			return status;
		first = false;
		wait_and_clear(&stat);
	}
}

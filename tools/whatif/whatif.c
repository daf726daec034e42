/* SPDX-License-Identifier: MIT */
/* spillway what-if: what a step would take under another limit. */
#include "tools/whatif/whatif.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_status.h"
#include "core/base/units.h"
#include "core/config/config.h"
#include "core/state/directory.h"
#include "tools/formats/output.h"
#include "tools/formats/table.h"
#include "tools/formats/value.h"
#include "tools/view/arguments.h"
#include "tools/view/jobs.h"
#include "tools/view/reach.h"
#include "tools/view/tool.h"

/* Where nothing else is asked. */
static const double usual_parts[] = {1, 0.9, 0.75, 0.5, 0.25};
#define USUAL_SLOWDOWN 0.1
/* A living job's steps that take so many times as long as predicted have another cost. */
#define NOW_MOST 1.25
/* Of so much of the kernels' time it need not be known how long they compute. */
#define UNKNOWN_MOST 0.1

struct whatif {
	struct whatif_grid grid;
	const char *svg;
	uint64_t gpu;
	bool is_json;
};

/* A job or file that is asked about. */
struct subject {
	const char *name;
	struct records records;
	struct model model;
	struct statistics now; /* of a job on that GPU; all 0 of a file */
};

/* --- the command line --- */

/* Calls take() for each word between commas. Returns false where there is none or too many. */
static bool each_word(const char *list, int *count, bool (*take)(const char *word, void *into),
                      void *into, size_t size)
{
	char *copy = text("%s", list), *rest = copy, *word;
	bool is_good = *list != '\0';

	*count = 0;
	while (is_good && (word = strsep(&rest, ",")) != NULL)
		is_good =
		    *count < WHATIF_MOST && take(word, (char *)into + size * (size_t)(*count)++);
	free(copy);
	return is_good;
}

static bool take_percent(const char *word, void *into)
{
	double percent;
	bool is_good = units_parse_percent(word, &percent) == 0 && percent > 0;

	*(double *)into = percent / 100;
	return is_good;
}

static bool take_size(const char *word, void *into)
{
	return units_parse_size(word, into) == 0 && !units_is_bare(word);
}

static bool whatif_take_limit(const char *word, void *into)
{
	double part;

	*(uint64_t *)into = 0;
	return (strchr(word, '%') && take_percent(word, &part)) || take_size(word, into);
}

static void take_limits(const struct argument *argument, const char *value)
{
	struct whatif_grid *grid = argument->into;
	char *copy = text("%s", value), *rest = copy, *word;

	if (!each_word(value, &grid->limits, whatif_take_limit, grid->limit, sizeof *grid->limit))
		usage_error("--memory '%s': expected sizes or percents of what the job held, with "
		            "commas between: 8GiB,12GiB or 90%%,75%%",
		            value);
	for (int i = 0; (word = strsep(&rest, ",")) != NULL; i++)
		if (!grid->limit[i])
			(void)take_percent(word, &grid->part[i]);
	free(copy);
}

static bool take_speed(const char *word, void *into)
{
	char *size = text("%s", word), *per = strstr(size, "/s");
	uint64_t bytes = 0;
	bool is_good;

	if (per && !per[2])
		*per = '\0';
	is_good = take_size(size, &bytes) && bytes;
	*(double *)into = (double)bytes;
	free(size);
	return is_good;
}

static void take_links(const struct argument *argument, const char *value)
{
	struct whatif_grid *grid = argument->into;

	if (!each_word(value, &grid->links, take_speed, grid->link, sizeof *grid->link))
		usage_error("--link '%s': expected speeds with commas between: 16GB/s,32GB/s",
		            value);
}

static void take_shares(const struct argument *argument, const char *value)
{
	struct whatif_grid *grid = argument->into;

	if (!each_word(value, &grid->shares, take_percent, grid->share, sizeof *grid->share))
		usage_error("--share '%s': expected percents with commas between: 30,50,100",
		            value);
}

static void take_slowdown(const struct argument *argument, const char *value)
{
	struct whatif_grid *grid = argument->into;

	if (units_parse_percent(value, &grid->slowdown) != 0)
		usage_error("--slowdown '%s': expected a percent: 10%%", value);
	grid->slowdown = grid->slowdown > 0 ? grid->slowdown / 100 : 1e-6;
}

static void whatif_take_gpu(const struct argument *argument, const char *value)
{
	if (units_parse_count(value, argument->into) != 0 ||
	    *(uint64_t *)argument->into >= SEGMENT_DEVICES)
		usage_error("--gpu '%s': expected the number of a GPU", value);
}

static char **whatif_read_command_line(struct whatif *w, int argc, char **argv)
{
	const struct argument options[] = {
	    {"memory", 0, "LIST", "Limits: 8GiB,12GiB or 90%,75% of what the job held", take_limits,
	     &w->grid},
	    {"share", 0, "LIST", "Shares of GPU time: 30,50,100", take_shares, &w->grid},
	    {"link", 0, "LIST", "Speeds of the link to host memory: 16GB/s,32GB/s", take_links,
	     &w->grid},
	    {"slowdown", 0, "PERCENT", "Recommend the smallest limit within it (10%)",
	     take_slowdown, &w->grid},
	    {"gpu", 0, "N", "The job's GPU of that number", whatif_take_gpu, &w->gpu},
	    {"json", 0, NULL, "Print JSON", argument_flag, &w->is_json},
	    {"svg", 0, "FILE", "Draw the curve; -: standard output", argument_file, &w->svg},
	    {0},
	};
	const struct command_line line = {
	    .command = "spillway what-if",
	    .operands = "JOB|FILE [JOB|FILE]",
	    .about = "Predicts what a step of a job takes under other limits, links and shares, "
	             "from a run that was measured: a job of which two steps were, or a file of "
	             "'spillway run --record'. Two jobs: beside each other on one GPU.",
	    .options = options,
	};

	return arguments_read(&line, argc, argv);
}

/* --- what is asked about --- */

/*
 * Tells a file from a job. "USER/JOB" is a job where no file has that path, and a name with a token
 * is one in any case.
 */
static bool whatif_is_file(const char *name)
{
	const char *slash = strchr(name, '/');
	struct stat found;

	if (!slash && strchr(name, '@'))
		return false;
	if (file_status(name, &found) == 0)
		return slash || S_ISREG(found.st_mode);
	return slash && (slash == name || *name == '.' || strchr(slash + 1, '/'));
}

/* Returns the text of its records, or ends the tool. Notes how the job is now. */
static char *subject_text(struct subject *subject, const char *name, int gpu)
{
	struct segment_view *view;
	char *records;

	if (whatif_is_file(name)) {
		records = records_text(name);
		if (!records)
			fail("%s: %s", name, strerror(errno));
		return records;
	}
	if (!reach_job(&name))
		exit(TOOL_FAILED);
	view = jobs_read(name);
	if (!view)
		exit(TOOL_FAILED);
	records = records_of_job(view);
	if (!records)
		fail("%s: no steps were measured; they are once memory is on the host, and from "
		     "the start of 'spillway run --record FILE'",
		     name);
	if (gpu < view->device_count)
		subject->now = view->job_total[gpu];
	segment_view_free(view);
	return records;
}

static const struct survey_record *whatif_find_gpu(const struct records *records, int gpu)
{
	for (int i = 0; i < records->count; i++)
		if (records->gpu[i].gpu == gpu)
			return &records->gpu[i];
	return NULL;
}

static void subject_open(struct subject *subject, const char *name, int gpu)
{
	const struct survey_record *record;
	char message[200], *records = subject_text(subject, name, gpu);

	subject->name = name;
	if (!records_parse(&subject->records, records, message, sizeof message))
		fail("%s: %s", name, message);
	free(records);
	record = whatif_find_gpu(&subject->records, gpu);
	if (!record)
		fail("%s: no steps were measured on GPU %d; on GPU %d they were", name, gpu,
		     subject->records.gpu[0].gpu);
	model_make(&subject->model, record);
}

static void subject_close(struct subject *subject)
{
	model_free(&subject->model);
	records_free(&subject->records);
}

/* --- the grid --- */

/* Fills in what was not asked. */
static void grid_complete(struct whatif_grid *grid)
{
	int usual = (int)(sizeof usual_parts / sizeof *usual_parts);

	for (int i = 0; !grid->limits && i < usual; i++)
		grid->part[i] = usual_parts[i];
	grid->limits = grid->limits ? grid->limits : usual;
	if (!grid->shares)
		grid->share[grid->shares++] = 1;
	if (!grid->links)
		grid->link[grid->links++] = 0;
	if (grid->slowdown <= 0)
		grid->slowdown = USUAL_SLOWDOWN;
}

/* Asks for the share of a living job, of which the page and its user think. */
static void grid_take_share(struct whatif_grid *grid, const struct statistics *now)
{
	if (!grid->shares && now->share_set && now->share_set < 100000)
		grid->share[grid->shares++] = (double)now->share_set / 100000;
}

static struct model_question grid_question(const struct whatif_grid *grid,
                                           const struct model *model, int limit, int link,
                                           int share)
{
	double part = grid->part[limit];
	uint64_t held = model_held(model);

	return (struct model_question){.limit = part > 0 ? (uint64_t)((double)held * part)
	                                                 : grid->limit[limit],
	                               .link = grid->link[link],
	                               .share = grid->share[share]};
}

/* Calls say() with each prediction. */
static void grid_each(const struct whatif_grid *grid, const struct model *model,
                      void (*say)(void *cookie, const struct model_answer *answer), void *cookie)
{
	for (int link = 0; link < grid->links; link++)
		for (int share = 0; share < grid->shares; share++)
			for (int limit = 0; limit < grid->limits; limit++) {
				struct model_question question =
				    grid_question(grid, model, limit, link, share);
				struct model_answer answer;

				model_ask(model, &question, &answer);
				say(cookie, &answer);
			}
}

/* Returns the question about the first link and share, by which limits are recommended. */
static struct model_question grid_first(const struct whatif_grid *grid)
{
	return (struct model_question){.link = grid->link[0], .share = grid->share[0]};
}

/* --- as text --- */

static const char *duration(double ns, char *buf, size_t size)
{
	return units_format_duration((uint64_t)higher(ns, 0), buf, size);
}

static const char *source_text(const struct model *model, const struct whatif_grid *grid)
{
	if (grid->links && grid->link[0] > 0)
		return "as given";
	switch (model->source) {
	case LINK_READ:
		return "as kernels read over it";
	case LINK_MOVED:
		return "as fast as memory moved";
	default:
		return "modelled link: nothing was on the host while it was measured";
	}
}

static void say_measured(const struct subject *subject, const struct whatif_grid *grid)
{
	const struct model *m = &subject->model;
	char step[32], held[32], link[32];
	double speed = grid->link[0] > 0 ? grid->link[0] : m->link;

	printf("%s, GPU %d (%s): ", *subject->records.job ? subject->records.job : subject->name,
	       m->record->gpu, m->record->name);
	if (m->record->steps)
		printf("a step takes %s, %.0f %% of it in kernels",
		       duration(m->step_ns, step, sizeof step), 100 * m->kernels_ns / m->step_ns);
	else
		printf("no steps; kernels run for %.0f ms of a second",
		       1000 * m->kernels_ns / m->step_ns);
	printf(", with %s of memory\n", units_format_size(model_held(m), held, sizeof held));
	printf("link to host memory: %s/s, %s\n",
	       units_format_size((uint64_t)speed, link, sizeof link), source_text(m, grid));
	if (m->has_graph)
		puts("launches are graphs, and no kernel of a graph is measured by itself: rely on "
		     "RANGE, STEP is a guess within it");
	if (m->unknown >= UNKNOWN_MOST)
		printf(
		    "for %.0f %% of their time kernels waited for the host in all launches: how "
		    "long they compute is not known, and steps with more memory take longer than "
		    "said here\n",
		    100 * m->unknown);
}

/*
 * Says where a job's steps take longer now than predicted for its limit and share. For example, a
 * program that allocates in each step waits for memory that moves.
 */
static void say_now(const struct subject *subject)
{
	const struct model *m = &subject->model;
	const struct statistics *now = &subject->now;
	struct model_question question = {.limit = now->limit_set,
	                                  .share = (double)now->share_set / 100000};
	struct model_answer answer;
	char step[32], predicted[32];

	if (!now->step_ns || !m->record->steps)
		return;
	model_ask(m, &question, &answer);
	if ((double)now->step_ns > NOW_MOST * answer.step_ns)
		printf("measured now: a step takes %s, predicted %s: this program has a cost that "
		       "is not modelled\n",
		       duration((double)now->step_ns, step, sizeof step),
		       duration(answer.step_ns, predicted, sizeof predicted));
}

/* Writes a time of a step; of a program without steps: of kernels in each second of its work. */
static const char *step_text(const struct model *m, double ns, char *buf, size_t size)
{
	if (m->record->steps)
		return duration(ns, buf, size);
	snprintf(buf, size, "%.0f ms", 1000 * ns / m->step_ns);
	return buf;
}

/* Returns whether it is known how long a step takes with nothing on the host. */
static bool is_compared(const struct model *m)
{
	return m->unknown < UNKNOWN_MOST;
}

struct rows_of_table {
	const struct model *model;
	struct table table;
	bool has_links, has_shares;
};

static void add_row(void *cookie, const struct model_answer *a)
{
	struct rows_of_table *rows = cookie;
	char buf[32], high[32];

	table_cell(&rows->table, "%s", units_format_size(a->limit, buf, sizeof buf));
	if (rows->has_links)
		table_cell(&rows->table, "%s/s",
		           units_format_size((uint64_t)a->link, buf, sizeof buf));
	if (rows->has_shares)
		table_cell(&rows->table, "%.0f %%", 100 * a->share);
	if (!a->is_possible) {
		for (int i = 0; i < 4; i++)
			table_cell(&rows->table, "-");
		table_cell(&rows->table, "below what cannot move");
		return;
	}
	table_cell(&rows->table, "%s", units_format_size(a->host, buf, sizeof buf));
	table_cell(&rows->table, "%s", step_text(rows->model, a->step_ns, buf, sizeof buf));
	table_cell(&rows->table, "%s to %s", step_text(rows->model, a->low_ns, buf, sizeof buf),
	           step_text(rows->model, a->high_ns, high, sizeof high));
	if (is_compared(rows->model))
		table_cell(&rows->table, "%.2f", a->times);
	else
		table_cell(&rows->table, "-");
	table_cell(&rows->table, "%s", units_format_size((uint64_t)a->bus, buf, sizeof buf));
}

static void whatif_print_table(const struct model *model, const struct whatif_grid *grid)
{
	struct rows_of_table rows = {.model = model,
	                             .has_links = grid->links > 1,
	                             .has_shares = grid->shares > 1 || grid->share[0] < 1};
	const char *headings[9] = {"LIMIT"};
	int count = 1;

	if (rows.has_links)
		headings[count++] = "LINK";
	if (rows.has_shares)
		headings[count++] = "SHARE";
	headings[count++] = "ON HOST";
	headings[count++] = model->record->steps ? "STEP" : "BUSY PER SECOND";
	headings[count++] = "RANGE";
	headings[count++] = "TIMES";
	headings[count++] = "READ FROM HOST";
	headings[count] = NULL;
	table_start(&rows.table, headings);
	grid_each(grid, model, add_row, &rows);
	table_end(&rows.table, stdout);
}

/* Returns a limit in MiB, rounded up, as --memory has it. */
static uint64_t limit_mib(uint64_t bytes)
{
	return (bytes >> 20) + 1;
}

/* Says the limits that matter. */
static void print_advice(const struct model *model, const struct whatif_grid *grid)
{
	struct model_question question = grid_first(grid);
	struct model_answer answer;
	char size[32];

	if (!is_compared(model))
		return;
	question.limit = model_smallest(model, &question, grid->slowdown);
	model_ask(model, &question, &answer);
	printf("within %.3g %%: --memory %" PRIu64 "MiB (%.2f times)\n", 100 * grid->slowdown,
	       limit_mib(question.limit), answer.times);
	question.limit = model_knee(model, &question);
	model_ask(model, &question, &answer);
	if (question.limit < model_held(model))
		printf("knee of the curve: %s (%.2f times); below it each byte costs more\n",
		       units_format_size(question.limit, size, sizeof size), answer.times);
}

/* --- as JSON --- */

static void json_size(struct json *json, const char *key, double value)
{
	json_number(json, key, (uint64_t)higher(value, 0));
}

/* Writes a number with three decimals. */
static void json_times(struct json *json, const char *key, double value)
{
	json_micros(json, key, (uint64_t)(higher(value, 0) * 1000 + 0.5));
}

static void json_answer(void *cookie, const struct model_answer *a)
{
	struct json *json = cookie;

	json_open(json, NULL, '{');
	json_number(json, "limit", a->limit);
	json_bool(json, "possible", a->is_possible);
	json_size(json, "link", a->link);
	json_times(json, "share", 100 * a->share);
	json_number(json, "host", a->host);
	json_size(json, "step_ns", a->step_ns);
	json_size(json, "low_ns", a->low_ns);
	json_size(json, "high_ns", a->high_ns);
	json_times(json, "times", a->times);
	json_times(json, "busy", a->busy);
	json_size(json, "bus", a->bus);
	json_close(json, '}');
}

/* Writes the prediction for one limit, by its name. */
static void json_at(struct json *json, const char *key, const struct model *model,
                    const struct model_question *question)
{
	struct model_answer answer;

	model_ask(model, question, &answer);
	json_open(json, key, '{');
	json_number(json, "limit", answer.limit);
	json_times(json, "times", answer.times);
	json_close(json, '}');
}

static void json_model(struct json *json, const char *job, const struct model *model,
                       const struct whatif_grid *grid)
{
	static const char *const sources[] = {
	    [LINK_MODELLED] = "modelled", [LINK_MOVED] = "moves", [LINK_READ] = "kernels"};
	const struct survey_record *r = model->record;
	struct model_question question = grid_first(grid);

	json_text(json, "job", job);
	json_integer(json, "gpu", r->gpu);
	json_text(json, "name", r->name);
	json_bool(json, "has_steps", r->steps != 0);
	json_size(json, "step_ns", model->step_ns);
	json_size(json, "least_ns", model->least_ns);
	json_size(json, "kernels_ns", model->kernels_ns);
	json_number(json, "held", r->held);
	json_number(json, "fixed", model->fixed);
	json_size(json, "link", model->link);
	json_text(json, "link_source", sources[model->source]);
	json_open(json, "points", '[');
	grid_each(grid, model, json_answer, json);
	json_close(json, ']');
	json_times(json, "slowdown", 100 * grid->slowdown);
	question.limit = model_smallest(model, &question, grid->slowdown);
	json_at(json, "recommended", model, &question);
	question.limit = model_knee(model, &question);
	json_at(json, "knee", model, &question);
}

bool whatif_json(struct json *json, const struct segment_view *view, int gpu,
                 const struct whatif_grid *grid)
{
	char message[200], *records = records_of_job(view);
	struct whatif_grid whole = *grid;
	struct records read = {0};
	const struct survey_record *record;
	struct model model;

	if (records && !records_parse(&read, records, message, sizeof message))
		complain("%s: %s", view->job, message);
	free(records);
	record = whatif_find_gpu(&read, gpu);
	if (record) {
		grid_complete(&whole);
		model_make(&model, record);
		json_model(json, view->job, &model, &whole);
		model_free(&model);
	}
	records_free(&read);
	return record != NULL;
}

/* --- two jobs --- */

/* Says how long both take, where the GPU's memory is split between them in several ways. */
static void print_beside(const struct subject *one, const struct subject *other,
                         const struct whatif_grid *grid)
{
	static const double parts[] = {0.25, 0.375, 0.5, 0.625, 0.75};
	uint64_t memory = one->model.record->memory;
	char *first = text("<%s", one->name), *second = text("%s", other->name);
	const char *const headings[] = {first + 1, "STEP", "TIMES", second, "STEP", "TIMES", NULL};
	struct table table;

	table_start(&table, headings);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		const struct subject *of[] = {one, other};
		struct model_answer answer[2];

		for (int n = 0; n < 2; n++) {
			struct model_question question = grid_first(grid);

			question.limit = (uint64_t)((double)memory * (n ? 1 - parts[i] : parts[i]));
			question.share = n < grid->shares ? grid->share[n] : grid->share[0];
			model_ask(&of[n]->model, &question, &answer[n]);
		}
		model_beside(&answer[0], &answer[1]);
		for (int n = 0; n < 2; n++) {
			char size[32], step[32];

			table_cell(&table, "%s",
			           units_format_size(answer[n].limit, size, sizeof size));
			table_cell(&table, "%s%s",
			           step_text(&of[n]->model, answer[n].step_ns, step, sizeof step),
			           answer[n].is_possible ? "" : "?");
			table_cell(&table, "%.2f", answer[n].times);
		}
	}
	table_end(&table, stdout);
	free(first);
	free(second);
}

/* --- the command --- */

static bool whatif_draw(const struct whatif *w, const struct model *model)
{
	struct output output;

	if (!w->svg)
		return true;
	if (!output_begin(&output, w->svg, 0644))
		return false;
	whatif_svg(output.out, model, &w->grid);
	return output_end(&output);
}

static void whatif_print_json(const struct subject *subject, const struct whatif_grid *grid)
{
	struct json json = {.out = stdout};

	json_open_document(&json);
	json_model(&json, *subject->records.job ? subject->records.job : subject->name,
	           &subject->model, grid);
	json_close(&json, '}');
	putchar('\n');
}

int command_what_if(int argc, char **argv)
{
	struct whatif w = {0};
	struct subject subject = {0}, other = {0};
	char **operands = whatif_read_command_line(&w, argc, argv);
	bool is_drawn;

	if (!operands[0])
		usage_error("expected a job or a file");
	if (operands[1] && operands[2])
		usage_error("'%s': at most two jobs are asked about", operands[2]);
	if (operands[1] && (w.is_json || w.svg))
		usage_error("--%s: of one job alone", w.is_json ? "json" : "svg");
	subject_open(&subject, operands[0], (int)w.gpu);
	if (!operands[1])
		grid_take_share(&w.grid, &subject.now);
	grid_complete(&w.grid);
	if (operands[1]) {
		subject_open(&other, operands[1], (int)w.gpu);
		say_measured(&subject, &w.grid);
		say_measured(&other, &w.grid);
		print_beside(&subject, &other, &w.grid);
		subject_close(&other);
	} else if (w.is_json) {
		whatif_print_json(&subject, &w.grid);
	} else if (!w.svg || strcmp(w.svg, "-") != 0) {
		say_measured(&subject, &w.grid);
		say_now(&subject);
		whatif_print_table(&subject.model, &w.grid);
		print_advice(&subject.model, &w.grid);
	}
	is_drawn = whatif_draw(&w, &subject.model);
	subject_close(&subject);
	return is_drawn ? TOOL_OK : TOOL_FAILED;
}

/* --- the end of a run --- */

char *whatif_summary(const struct segment_view *view)
{
	char message[200], *records = records_of_job(view), *line = NULL;
	struct records read = {0};

	if (records && !records_parse(&read, records, message, sizeof message))
		complain("%s: %s", view->job, message);
	free(records);
	for (int i = 0; i < read.count && !line; i++) {
		struct model_question question = {.share = 1};
		struct model model;

		model_make(&model, &read.gpu[i]);
		question.limit = model_smallest(&model, &question, 0.01);
		if (model.has_read && is_compared(&model) &&
		    model_measured(&model) > 1.01 * model.least_ns)
			line = text("memory on the host made %s take %s%.*f times as long; "
			            "--memory %" PRIu64 "MiB is estimated to avoid it",
			            read.gpu[i].steps ? "a step" : "kernels",
			            model.has_graph ? "about " : "",
			            UNITS_TIMES(model_measured(&model) / model.least_ns),
			            limit_mib(question.limit));
		model_free(&model);
	}
	records_free(&read);
	return line;
}

bool whatif_record(const struct segment_view *view, const char *path)
{
	char *records = records_of_job(view);
	struct output output;
	bool is_done;

	if (!records) {
		complain("%s: no steps were measured: nothing is recorded", view->job);
		return false;
	}
	is_done = output_begin(&output, path, 0644);
	if (is_done) {
		fputs(records, output.out);
		is_done = output_end(&output);
	}
	free(records);
	return is_done;
}

/* SPDX-License-Identifier: MIT */
/* spillway top: watches jobs and changes them, by keys. */
#include "tools/top/top.h"

#include <curses.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tools/view/arguments.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"

struct top {
	uint64_t interval_ns;
	struct top_view view;
	struct top_change change;
	/* The purpose of the typed text: '/', 'm', 'M', 'p', 'P'; of which row. */
	int purpose;
	struct top_row subject;
	/* The change that waits for a "y". */
	struct request {
		const char *command, *option;
		char value[64]; /* "": none */
		bool this_gpu;
	} request;
	bool quits;
};

static volatile sig_atomic_t ended_by;
static struct top_view *shown; /* while complaints go there */

static void take_interval(const struct argument *argument, const char *value)
{
	uint64_t *interval_ns = argument->into;

	argument_duration(argument, value);
	if (*interval_ns < 1000000 || *interval_ns > 3600000000000)
		usage_error("--interval '%s': expected 1ms to 1h", value);
}

static void top_read_command_line(struct top *top, int argc, char **argv)
{
	const struct argument options[] = {
	    {"interval", 0, "SECONDS", "How often to look (1)", take_interval, &top->interval_ns},
	    {"read-only", 0, NULL, "Without the keys that change jobs", argument_flag,
	     &top->view.is_read_only},
	    {0},
	};
	const struct command_line line = {
	    .command = "spillway top",
	    .operands = "[JOB]",
	    .about = "Watches running jobs, or one, with a row per process and GPU, and changes "
	             "them by keys. Without a terminal it prints the rows once.",
	    .options = options,
	};

	top->interval_ns = 1000000000;
	top->view.choice.job = arguments_job(arguments_read(&line, argc, argv), false);
}

static void on_signal(int number)
{
	ended_by = number;
}

/* Handles signals before ncurses would, which would end us with a status that says nothing. */
static void handle_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static void show_complaint(const char *line)
{
	snprintf(shown->message, sizeof shown->message, "%s", line);
}

/* Prints the reason that ends the tool where it is still seen once the screen is gone. */
static void say_last_complaint(void)
{
	if (complain_to)
		fprintf(stderr, "spillway: %s\n", shown->message);
}

static const struct top_row *selected(const struct top *top)
{
	const struct top_view *view = &top->view;
	int row = view->selected; /* since it was drawn a key may have moved it above the first */

	return row >= 0 && row < view->rows.count ? &view->rows.row[row] : NULL;
}

/* Rows come and go; the selection stays with its own. */
static void read_rows(struct top *top)
{
	struct top_view *view = &top->view;
	struct top_rows before = view->rows;
	const struct top_row *was = selected(top);

	top_rows_read(&view->rows, &before, &view->choice);
	for (int i = 0; was && i < view->rows.count; i++)
		if (top_row_is_same(&view->rows.row[i], was))
			view->selected = i;
	top_rows_free(&before);
	top_gpus_free(&view->gpus);
	top_gpus_read(&view->gpus);
}

/* Returns the selected row where its job may be changed; NULL after a line that says why not. */
static const struct top_row *to_be_changed(struct top *top)
{
	const struct top_row *row = selected(top);

	if (top->view.is_read_only)
		show_complaint("--read-only: no key changes a job");
	else if (row && !row->pid)
		show_complaint("the job has ended");
	return !top->view.is_read_only && row && row->pid ? row : NULL;
}

static void top_ask(struct top *top, int purpose)
{
	static char question[256];
	const struct top_row *row = purpose == '/' ? NULL : to_be_changed(top);

	if (purpose == '/') {
		snprintf(question, sizeof question, "show what contains:");
	} else if (!row || (row->gpu < 0 && (purpose == 'M' || purpose == 'P'))) {
		return;
	} else {
		char gpu[32] = "";

		top->subject = *row;
		if (purpose == 'M' || purpose == 'P')
			snprintf(gpu, sizeof gpu, " on gpu %d", row->gpu);
		snprintf(question, sizeof question,
		         purpose == 'm' || purpose == 'M'
		             ? "memory limit of %s%s (8GiB, 50%%, unlimited):"
		             : "percent of GPU time for %s%s:",
		         row->job, gpu);
	}
	top->purpose = purpose;
	top->view.question = question;
	*top->view.typed = '\0';
}

/* Begins the change that was asked for. One change at a time. */
static void top_begin_change(struct top *top)
{
	const struct request *request = &top->request;
	const struct top_row *row = &top->subject;
	char gpu[64];
	const char *arguments[8] = {request->command};
	int count = 1;

	if (top->change.process) {
		show_complaint("the change before is still going on");
		return;
	}
	if (request->option)
		arguments[count++] = request->option;
	if (*request->value)
		arguments[count++] = request->value;
	if (request->this_gpu) {
		snprintf(gpu, sizeof gpu, "--limit-gpu=%s", row->device.uuid);
		arguments[count++] = gpu;
	}
	arguments[count++] = "--";
	arguments[count] = row->job;
	top_change_begin(&top->change, arguments);
	snprintf(top->view.message, sizeof top->view.message, "%s %s ...", arguments[0], row->job);
}

/* Names the effect of a change on its job, for a question. */
static const char *effect_of(const struct request *request)
{
	if (strcmp(request->command, "resume") == 0)
		return "it goes on, and its memory comes back";
	if (strcmp(request->command, "set") == 0)
		return "its limits change while it runs";
	return request->option ? "it stops, and its memory goes to the host"
	                       : "it stops at its next launch";
}

/*
 * Begins a change of the subject. Asks before, where it stops the job by one key or the job is
 * another user's.
 */
static void begin_or_confirm(struct top *top)
{
	static char question[512];
	const struct request *request = &top->request;
	const char *user = top->subject.other_user;

	if (!*user && strcmp(request->command, "pause") != 0) {
		top_begin_change(top);
		return;
	}
	snprintf(question, sizeof question, "%s %s%s%s%s%s? y/n: %s",
	         request->option && !*request->value ? "evict" : request->command, top->subject.job,
	         *request->value ? " to " : "", request->value, *user ? ", a job of user " : "",
	         user, effect_of(request));
	top->purpose = 'y';
	top->view.question = question;
	*top->view.typed = '\0';
}

static void top_confirm(struct top *top, int key)
{
	top->view.question = NULL;
	if (key == 'y' || key == 'Y')
		top_begin_change(top);
	else
		show_complaint("nothing is changed");
}

static void top_answer(struct top *top)
{
	struct top_view *view = &top->view;
	bool this_gpu = top->purpose == 'M' || top->purpose == 'P';

	view->question = NULL;
	if (top->purpose == '/')
		memcpy(view->choice.filter, view->typed, sizeof view->choice.filter);
	else if (*view->typed) {
		top->request = (struct request){
		    .command = "set",
		    .option = top->purpose == 'm' || top->purpose == 'M' ? "--memory" : "--share",
		    .this_gpu = this_gpu};
		memcpy(top->request.value, view->typed, sizeof top->request.value);
		begin_or_confirm(top);
	}
}

static void type(struct top *top, int key)
{
	char *typed = top->view.typed;
	size_t length = strlen(typed);

	if (key == '\n' || key == '\r' || key == KEY_ENTER)
		top_answer(top);
	else if (key == 27)
		top->view.question = NULL;
	else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && length > 0)
		typed[length - 1] = '\0';
	else if (key >= ' ' && key < 127 && length < sizeof top->view.typed - 1)
		typed[length] = (char)key, typed[length + 1] = '\0';
}

static void act(struct top *top, int key)
{
	struct top_view *view = &top->view;
	const struct top_row *row;

	*view->message = '\0';
	switch (key) {
	case 'q':
		top->quits = true;
		break;
	case 'h':
	case '?':
		view->help = true;
		break;
	case 's':
		view->choice.order = (view->choice.order + 1) % TOP_ORDERS;
		break;
	case 'S':
		view->choice.reverse = !view->choice.reverse;
		break;
	case 'a':
		view->choice.has_ended = !view->choice.has_ended;
		break;
	case '/':
	case 'm':
	case 'M':
	case 'p':
	case 'P':
		top_ask(top, key);
		break;
	case 'z':
	case 'e':
	case 'r':
		row = to_be_changed(top);
		if (!row)
			break;
		top->subject = *row;
		top->request = (struct request){.command = key == 'r' ? "resume" : "pause",
		                                .option = key == 'e' ? "--evict" : NULL};
		begin_or_confirm(top);
		break;
	case KEY_UP:
		view->selected--;
		break;
	case KEY_DOWN:
		view->selected++;
		break;
	case KEY_PPAGE:
		view->selected -= top_screen_rows(view);
		break;
	case KEY_NPAGE:
		view->selected += top_screen_rows(view);
		break;
	case KEY_HOME:
		view->selected = 0;
		break;
	case KEY_END:
		view->selected = view->rows.count - 1;
		break;
	default:
		break;
	}
}

static void top_take(struct top *top, int key)
{
	if (key == KEY_RESIZE)
		return; /* drawn anew anyway */
	if (top->view.help)
		top->view.help = false;
	else if (top->view.question && top->purpose == 'y')
		top_confirm(top, key);
	else if (top->view.question)
		type(top, key);
	else
		act(top, key);
}

static int top_milliseconds_left(uint64_t since_ns, uint64_t interval_ns)
{
	uint64_t passed = clock_now() - since_ns;

	return passed >= interval_ns ? 0 : (int)((interval_ns - passed) / 1000000) + 1;
}

static void top_watch(struct top *top)
{
	enum { CHANGE_MS = 50 }; /* while one goes on */

	read_rows(top);
	while (!top->quits && !ended_by) {
		int left = top_milliseconds_left(top->view.rows.read_ns, top->interval_ns);
		int key;

		top_screen_draw(&top->view);
		key = top_screen_key(top->change.process && left > CHANGE_MS ? CHANGE_MS : left);
		if (key != ERR)
			top_take(top, key);
		if (top_change_has_ended(&top->change)) {
			show_complaint(top->change.said);
			left = 0;
		}
		if (left == 0 || key == '\n' || key == 's' || key == 'S' || key == 'a' ||
		    top_milliseconds_left(top->view.rows.read_ns, top->interval_ns) == 0)
			read_rows(top);
	}
}

static bool top_is_there(const char *job)
{
	struct segment_view *view = jobs_read(job);
	bool there = view;

	segment_view_free(view);
	return there;
}

int command_top(int argc, char **argv)
{
	struct top *top = allocate(sizeof *top);

	top_read_command_line(top, argc, argv);
	if (top->view.choice.job && !top_is_there(top->view.choice.job))
		return TOOL_FAILED;
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
		handle_signals();
		shown = &top->view;
		atexit(say_last_complaint);
		if (top_screen_open()) {
			complain_to = show_complaint;
			top_watch(top);
			complain_to = NULL;
			top_screen_close();
			if (ended_by) {
				signal(ended_by, SIG_DFL);
				raise(ended_by);
			}
			return TOOL_OK;
		}
		complain("TERM=%s: not a terminal that is known here",
		         getenv("TERM") ? getenv("TERM") : "");
	}
	top_rows_read(&top->view.rows, NULL, &top->view.choice);
	top_print(&top->view.rows, stdout);
	return fflush(stdout) == 0 ? TOOL_OK : TOOL_FAILED;
}

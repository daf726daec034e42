/* SPDX-License-Identifier: MIT */
/*
 * spillway top: the screen.
 *
 *   title      how many jobs and processes, the order, the filter
 *   message    the answer to the last key, or the legend of the bars
 *   GPUs       a line each: its name, its memory, its users
 *   headings
 *   rows       the selected one in reverse
 *   detail     fields of the selected row that do not fit
 *   keys       or the question that is being answered
 */
#include <curses.h>
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>
#include <wctype.h>

#include "core/base/units.h"
#include "core/base/printable.h"
#include "tools/formats/value.h"
#include "tools/top/top.h"
#include "tools/view/tool.h"

enum { LINES_ABOVE = 3, LINES_BELOW = 4, LEAST_LINES = 9, LEAST_COLUMNS = 64 };
enum { PAIR_HOST = 1, PAIR_OVER, PAIR_USED, PAIR_OTHERS };
/* A low terminal has no line for GPUs, and no more than a third of another are theirs. */
enum { GPU_LEAST_LINES = 12, GPU_PART = 3, GPU_NAME = 30, GPU_BAR_LEAST = 8 };

static SCREEN *screen;
static bool stands; /* the screen, instead of the shell's lines */

void top_screen_close(void)
{
	if (stands)
		endwin();
	stands = false;
}

bool top_screen_open(void)
{
	setlocale(LC_CTYPE, "");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return false;
	stands = true;
	atexit(top_screen_close);
	cbreak();
	noecho();
	curs_set(0);
	set_escdelay(25);
	keypad(stdscr, TRUE);
	if (has_colors() && !getenv("NO_COLOR")) {
		start_color();
		use_default_colors();
		init_pair(PAIR_HOST, COLOR_YELLOW, -1);
		init_pair(PAIR_OVER, COLOR_RED, -1);
		init_pair(PAIR_USED, COLOR_GREEN, -1);
		init_pair(PAIR_OTHERS, COLOR_BLUE, -1);
	}
	return true;
}

int top_screen_key(int milliseconds)
{
	timeout(milliseconds);
	return getch();
}

static int gpu_lines(const struct top_view *view)
{
	int most = LINES < GPU_LEAST_LINES ? 0 : LINES / GPU_PART;

	return view->gpus.count < most ? view->gpus.count : most;
}

int top_screen_rows(const struct top_view *view)
{
	int rows = LINES - LINES_ABOVE - LINES_BELOW - gpu_lines(view);

	return rows > 0 ? rows : 1;
}

/*
 * Puts text in a field of this many cells; names come from other processes; a character that the
 * terminal does not have becomes "?".
 */
static void put_field(int width, bool left, const char *name)
{
	char *whole = printable(text("%s", name)), *at = whole;
	wchar_t shown[512];
	mbstate_t state = {0};
	int count = 0, cells = 0;

	for (size_t rest = strlen(at); rest > 0 && count < 511;) {
		wchar_t wide;
		size_t length = mbrtowc(&wide, at, rest, &state);
		int wide_cells;

		if (length == (size_t)-1 || length == (size_t)-2) {
			length = 1;
			wide = L'?';
			state = (mbstate_t){0};
		} else if (!iswprint(wide)) {
			wide = L'?';
		}
		wide_cells = wcwidth(wide);
		if (cells + wide_cells > width)
			break;
		shown[count++] = wide;
		cells += wide_cells;
		at += length;
		rest -= length;
	}
	shown[count] = L'\0';
	free(whole);
	if (left)
		addnwstr(shown, count);
	printw("%*s", width - cells, "");
	if (!left)
		addnwstr(shown, count);
}

/*
 * Gives the columns the cells they need; beyond that, bars and names grow first, and the command
 * gets the rest.
 */
static void choose_widths(int width[TOP_COLUMNS])
{
	static const int least[TOP_COLUMNS] = {
	    [TOP_PID] = 7,      [TOP_JOB] = 10,     [TOP_GPU] = 3,     [TOP_DEVICE_BAR] = 8,
	    [TOP_DEVICE] = 6,   [TOP_HOST_BAR] = 6, [TOP_HOST] = 6,    [TOP_LIMIT] = 6,
	    [TOP_SHARE] = 5,    [TOP_HELD] = 6,     [TOP_SPILLS] = 6,  [TOP_STEP] = 0,
	    [TOP_PRIORITY] = 0, [TOP_LENDING] = 0,  [TOP_COMMAND] = 0,
	};
	int left = COLS - (TOP_COLUMNS - 5), grown; /* the last four have their spaces in them */

	for (int column = 0; column < TOP_COLUMNS; column++) {
		width[column] = least[column];
		left -= least[column];
	}
	/* in a narrow one the bars go, then the last columns */
	while (left < 0 && width[TOP_DEVICE_BAR] + width[TOP_HOST_BAR] > 0) {
		width[width[TOP_DEVICE_BAR] >= width[TOP_HOST_BAR] ? TOP_DEVICE_BAR
		                                                   : TOP_HOST_BAR]--;
		left++;
	}
	grown = left > 0 ? left / 4 : 0;
	width[TOP_JOB] += grown < 14 ? grown : 14;
	width[TOP_DEVICE_BAR] += grown < 12 ? grown : 12;
	left -= width[TOP_JOB] - least[TOP_JOB] + grown;
	if (left > 8) {
		width[TOP_STEP] = 7;
		left -= 8;
	}
	if (left > 45) { /* the command has room, too */
		width[TOP_PRIORITY] = 4;
		left -= 5;
	}
	if (left > 60) {
		width[TOP_LENDING] = 20;
		left -= 21;
	}
	width[TOP_COMMAND] = left > 10 ? left - 1 : 0;
}

static void draw_title(const struct top_view *view)
{
	const struct top_choice *choice = &view->choice;
	time_t now = time(NULL);
	struct tm local;
	char clock[16] = "", legend[128];
	char *title;

	if (localtime_r(&now, &local))
		strftime(clock, sizeof clock, "%H:%M:%S", &local);
	title = text("spillway top  jobs: %d  processes: %d  %s%s%ssort: %s%s%s", view->rows.jobs,
	             view->rows.processes, *choice->filter ? "filter: " : "", choice->filter,
	             *choice->filter ? "  " : "", choice->reverse ? "-" : "",
	             top_order_name(choice->order), choice->has_ended ? "  with ended" : "");
	move(0, 0);
	put_field(COLS - 9, true, title);
	put_field(9, false, clock);
	free(title);
	move(1, 0);
	put_field(COLS, true, *view->message ? view->message : top_legend(legend, sizeof legend));
}

static void draw_marks(enum top_mark mark, int count, attr_t colour)
{
	attrset(colour);
	for (int i = 0; i < count; i++)
		addstr(top_mark(mark));
	attrset(A_NORMAL);
}

/* Draws the GPU's memory: this user's, that of other users, the free part. */
static void draw_gpu_bar(const struct top_gpu *gpu, int width)
{
	uint64_t memory = gpu->device.memory;
	int mine = top_bar_cells(gpu->mine, memory, width);
	int others = top_bar_cells(gpu->others, memory, width);

	others = others < width - mine ? others : width - mine;
	draw_marks(TOP_USED, mine, COLOR_PAIR(PAIR_USED));
	draw_marks(TOP_OTHERS, others, COLOR_PAIR(PAIR_OTHERS));
	draw_marks(TOP_FREE, width - mine - others, A_DIM);
}

static void draw_gpu(const struct top_gpu *gpu)
{
	char name[128], figures[192];
	int length = (int)strlen(top_gpu_figures(gpu, figures, sizeof figures));
	int called = (int)strlen(top_gpu_name(gpu, name, sizeof name));
	int left = COLS - 1 - length;
	int field = called < GPU_NAME ? GPU_NAME : called;
	int bar = left - field - 1;

	if (bar < GPU_BAR_LEAST) {
		field = left;
		bar = 0;
	}
	attron(A_BOLD);
	put_field(field, true, name);
	attroff(A_BOLD);
	addch(' ');
	if (bar) {
		draw_gpu_bar(gpu, bar);
		addch(' ');
	}
	/* hardly anything is free */
	attrset(top_gpu_free(gpu) < gpu->device.memory / 20 ? COLOR_PAIR(PAIR_OVER) : A_NORMAL);
	put_field(length, false, figures);
	attrset(A_NORMAL);
}

static void draw_gpus(const struct top_view *view)
{
	int lines = gpu_lines(view);

	for (int i = 0; i < lines; i++) {
		move(2 + i, 0);
		if (i == lines - 1 && lines < view->gpus.count)
			printw("and %d GPUs more", view->gpus.count - i);
		else
			draw_gpu(&view->gpus.gpu[i]);
	}
}

static void draw_headings(int y, const int width[TOP_COLUMNS])
{
	attron(A_REVERSE);
	move(y, 0);
	for (enum top_column column = 0; column < TOP_COLUMNS; column++) {
		bool left;
		const char *heading = top_heading(column, &left);

		if (width[column] == 0)
			continue;
		if (column > 0)
			addch(' ');
		put_field(width[column], left, heading);
	}
	printw("%*s", COLS - getcurx(stdscr) % COLS, "");
	attroff(A_REVERSE);
}

static attr_t cell_colour(const struct top_row *row, enum top_column column)
{
	if (column == TOP_SPILLS && row->spills_now)
		return A_BOLD | COLOR_PAIR(PAIR_OVER);
	if ((column == TOP_DEVICE || column == TOP_HOST) && row->moves_now)
		return A_BOLD | COLOR_PAIR(PAIR_HOST);
	if (column == TOP_DEVICE_BAR && row->gpu >= 0)
		return COLOR_PAIR(row->job_used > row->statistics.limit_set ? PAIR_OVER
		                                                            : PAIR_USED);
	if (column == TOP_HELD && (row->statistics.paused || row->statistics.evicted))
		return A_BOLD | COLOR_PAIR(PAIR_HOST);
	if ((column == TOP_HOST || column == TOP_HOST_BAR) && row->statistics.host_used)
		return COLOR_PAIR(PAIR_HOST);
	return A_NORMAL;
}

/* Bars are drawn in their own colours: reversed, the held part would look free. */
static attr_t row_look(const struct top_row *row, enum top_column column, bool selected)
{
	if (selected && column != TOP_DEVICE_BAR && column != TOP_HOST_BAR)
		return A_REVERSE;
	return row->draining || !row->pid ? A_DIM : A_NORMAL;
}

static void draw_row(int y, const struct top_row *row, const int width[TOP_COLUMNS], bool selected)
{
	move(y, 0);
	for (enum top_column column = 0; column < TOP_COLUMNS; column++) {
		char cell[128];
		bool left;

		if (width[column] == 0)
			continue;
		top_heading(column, &left);
		attrset(selected ? A_REVERSE : A_NORMAL);
		if (column > 0)
			addch(' ');
		attrset(row_look(row, column, selected));
		attron(cell_colour(row, column));
		put_field(width[column], left,
		          top_cell(row, column, width[column], cell, sizeof cell));
	}
	attrset(A_NORMAL);
}

/* Draws the work of the selected row's program, and its memory. */
static void draw_work(const struct top_row *row)
{
	const struct statistics *statistics = &row->statistics;
	char out[32], in[32], spilled[32], steps[32], step[32], past[4 * TOP_PAST + 1], *line;

	line = text(
	    "%smoved %s out, %s in; spilled %s; steps %s%s%s %s", row->moves_now ? "moving: " : "",
	    units_format_size(statistics->demoted_bytes, out, sizeof out),
	    units_format_size(statistics->promoted_bytes, in, sizeof in),
	    units_format_size(statistics->spilled_bytes, spilled, sizeof spilled),
	    value_steps(statistics, steps, sizeof steps), statistics->step_ns ? " of " : "",
	    statistics->step_ns ? units_format_duration(statistics->step_ns, step, sizeof step)
	                        : "",
	    top_sparkline(row, past, sizeof past));
	move(LINES - 3, 0);
	put_field(COLS, true, line);
	free(line);
}

static void draw_detail(const struct top_row *row)
{
	const struct statistics *statistics = &row->statistics;
	char held[32], peak[32], idle[32], lending[128], *line;

	move(LINES - 4, 0);
	if (row->pid)
		line = text("%s, process %d%s: %s", row->job, (int)row->pid,
		            row->draining ? " (draining)" : "", row->command);
	else
		line = text("%s has ended; stat %s shows it", row->job, row->job);
	put_field(COLS, true, line);
	free(line);
	if (row->gpu < 0)
		return;
	draw_work(row);
	move(LINES - 2, 0);
	top_lending(row, lending, sizeof lending);
	if (*lending == '-')
		*lending = '\0';
	line = text("gpu %d: %slimit held %s, peak %s, refused %" PRIu64 ", idle %s; %s%s%s, %s",
	            row->gpu, statistics->evicted ? "evicted, " : "",
	            value_limit(statistics->limit_held, held, sizeof held),
	            units_format_size(statistics->device_peak, peak, sizeof peak),
	            statistics->refusals,
	            units_format_duration(statistics->idle_ns, idle, sizeof idle), lending,
	            *lending ? "; " : "", row->device.name, row->device.uuid);
	put_field(COLS, true, line);
	free(line);
}

static void draw_rows(const struct top_view *view)
{
	int width[TOP_COLUMNS];

	choose_widths(width);
	draw_headings(LINES_ABOVE - 1 + gpu_lines(view), width);
	for (int i = 0; i < top_screen_rows(view) && view->first + i < view->rows.count; i++) {
		int index = view->first + i;

		draw_row(LINES_ABOVE + gpu_lines(view) + i, &view->rows.row[index], width,
		         index == view->selected);
	}
	if (view->rows.count)
		draw_detail(&view->rows.row[view->selected]);
	else
		mvaddstr(LINES_ABOVE + gpu_lines(view), 0,
		         *view->choice.filter ? "nothing matches"
		                              : "no job runs here (a: jobs that have ended)");
}

/* Names every key; in a narrow terminal without words. */
static const char *bottom_keys(const struct top_view *view)
{
	static const char all[] =
	    "q quit h help sS sort / find a ended mM limit pP share z pause e evict r resume";

	if (view->is_read_only)
		return "q quit h help sS sort / find a ended  (read-only)";
	return COLS > (int)sizeof all - 1 ? all : "keys: q sS / a mM pP z e r  h explains them";
}

static void draw_bottom(const struct top_view *view)
{
	char *line = view->question ? text("%s %s_", view->question, view->typed)
	                            : text("%s", bottom_keys(view));

	move(LINES - 1, 0);
	/* the last cell of a screen cannot be written without scrolling it */
	put_field(COLS - 1, true, line);
	free(line);
}

static void draw_help(void)
{
	static const char *const lines[] = {
	    "spillway top: one row per process and GPU of every running job",
	    "",
	    "  Up Down PgUp PgDn Home End   select a row",
	    "  s  S                         sort by the next column; the other way round",
	    "  /                            show what has this in its job, command or UUID",
	    "  m  M                         memory limit of the job; on this GPU alone",
	    "  p  P                         share of GPU time; on this GPU alone",
	    "  a                            show jobs that have ended, too",
	    "  z  e                         pause the job; and move its memory to the host",
	    "  r                            let it go on",
	    "                               (z, e and root's keys on others' jobs want a \"y\")",
	    "  h ?                          this",
	    "  q                            quit",
	    "GPU     device memory of this user's jobs, of others' jobs, and the rest;",
	    "        busy: GPU time that jobs you reach held over the last 5 s",
	    "DEVICE  memory held; the bar: held, beyond the limit, free within it",
	    "HOST    memory held in its place; the bar: its part of all that is held",
	    "LIMIT SHARE   what is set; HELD: over the last 5 s, ~ an estimate, - unknown",
	    "        * other users' jobs take no turns with it: spillway doctor --setup",
	    "SPILLS  allocations placed on the host; STEP: time of a step",
	    "PRIO    its priority; LENDING: memory lent to others, borrowed and claimed",
	    "Below   the selected row: memory moved to the host and back, steps and",
	    "        their times as they were seen",
	};

	for (size_t i = 0; i < sizeof lines / sizeof *lines && (int)i < LINES - 1; i++)
		mvaddnstr((int)i, 0, lines[i], COLS);
	mvaddnstr(LINES - 1, 0, "any key goes back", COLS - 1);
}

void top_screen_draw(struct top_view *view)
{
	int room = top_screen_rows(view);

	if (view->selected >= view->rows.count)
		view->selected = view->rows.count - 1;
	if (view->selected < 0)
		view->selected = 0;
	if (view->first > view->selected)
		view->first = view->selected;
	if (view->first < view->selected - room + 1)
		view->first = view->selected - room + 1;
	if (view->first > view->rows.count - room)
		view->first = view->rows.count > room ? view->rows.count - room : 0;

	erase();
	if (LINES < LEAST_LINES || COLS < LEAST_COLUMNS) {
		mvaddnstr(0, 0, "too small", COLS);
	} else if (view->help) {
		draw_help();
	} else {
		draw_title(view);
		draw_gpus(view);
		draw_rows(view);
		draw_bottom(view);
	}
	refresh();
}

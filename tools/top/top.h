/* SPDX-License-Identifier: MIT */
/*
 * spillway top, in four parts: the rows and the GPUs (the state), the screen (the view), and a
 * change in progress (the request).
 */
#ifndef SPILLWAY_TOP_H
#define SPILLWAY_TOP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/state/segment.h"
#include "tools/view/node.h"
#include "tools/view/sharing.h"

/* Runs as the commands of tools/cli/commands.h do. */
int command_top(int argc, char **argv);

/* --- rows: one per process and device --- */

enum { TOP_PAST = 16 };

enum top_order { TOP_BY_JOB, TOP_BY_DEVICE, TOP_BY_HOST, TOP_BY_HELD, TOP_BY_SPILLS, TOP_ORDERS };

enum { TOP_JOB_MAX = NODE_USER_MAX + 1 + NODE_NAME_MAX };

struct top_row {
	char job[TOP_JOB_MAX];          /* its name for commands */
	char other_user[NODE_USER_MAX]; /* "": the job is of the calling user */
	char command[64];
	pid_t pid; /* 0: the job has ended, and the row is all of it */
	uint64_t started_ns;
	bool draining;
	int gpu; /* -1: the process has met none; the fields below are zero then */
	struct segment_device device;
	struct statistics statistics; /* of the process; limits and share are the job's */
	uint64_t job_used;            /* device memory the job is charged for */
	struct sharing_seen sharing;  /* likewise, as the job's peer records say */
	bool is_apart;                /* its share may not hold: node_find_apart() */
	bool spills_now;              /* more than in the rows before */
	bool moves_now;               /* likewise, memory between device and host */
	uint64_t
	    past[TOP_PAST]; /* times of a step, in ns, as they were seen; the latest is the last */
	int past_count;
};

struct top_rows {
	struct top_row *row;
	int count;
	int jobs, processes;
	uint64_t read_ns; /* CLOCK_MONOTONIC */
};

/* Which rows are shown, and in which order. */
struct top_choice {
	const char *job; /* NULL: all jobs */
	char filter[64]; /* in the row's job, command or GPU's UUID */
	bool has_ended;  /* jobs that have ended, too: a row for each of their GPUs */
	enum top_order order;
	bool reverse;
};

/* Reads the rows that there are now. before (may be NULL): the rows of the last time. The caller
 * frees them. */
void top_rows_read(struct top_rows *rows, const struct top_rows *before,
                   const struct top_choice *choice);
void top_rows_free(struct top_rows *rows);
bool top_row_is_same(const struct top_row *one, const struct top_row *other);
const char *top_order_name(enum top_order order);

/* --- GPUs: one per device that running jobs use --- */

struct top_gpu {
	struct segment_device device;
	int index;             /* as the jobs number it; -1: they do not agree */
	int jobs;              /* running ones, of all users */
	uint64_t mine, others; /* charged bytes of this user's jobs, and of those of other users */
	uint64_t busy; /* thousandths of a percent of its time that jobs within reach held */
	bool busy_is_known;
};

struct top_gpus {
	struct top_gpu *gpu;
	int count;
};

/* Reads those that there are now. The caller frees them. */
void top_gpus_read(struct top_gpus *gpus);
void top_gpus_free(struct top_gpus *gpus);
/* Writes "GPU 0 NAME", by its bus where jobs number it differently. Returns buf. */
const char *top_gpu_name(const struct top_gpu *gpu, char *buf, size_t size);
/* Writes its figures, each in a field of its own. Returns buf. */
const char *top_gpu_figures(const struct top_gpu *gpu, char *buf, size_t size);
/* Bytes that no job is charged for. */
uint64_t top_gpu_free(const struct top_gpu *gpu);

/* --- cells: the text of a row, by column --- */

enum top_column {
	TOP_PID,
	TOP_JOB,
	TOP_GPU,
	TOP_DEVICE_BAR,
	TOP_DEVICE,
	TOP_HOST_BAR,
	TOP_HOST,
	TOP_LIMIT,
	TOP_SHARE,
	TOP_HELD,
	TOP_SPILLS,
	TOP_STEP,
	TOP_PRIORITY,
	TOP_LENDING,
	TOP_COMMAND,
	TOP_COLUMNS
};

/* Returns the heading of a column, and on which side its text stands. */
const char *top_heading(enum top_column column, bool *left);
/* The marks of bars: Unicode where the locale has it. */
enum top_mark { TOP_USED, TOP_OVER, TOP_FREE, TOP_OTHERS, TOP_MARKS };
const char *top_mark(enum top_mark mark);
/* Writes the meaning of each mark: "# held ! beyond the limit ...". Returns buf. */
const char *top_legend(char *buf, size_t size);
/*
 * Returns how many cells of a bar a part has: all for all, at least one for a part that is not
 * zero.
 */
int top_bar_cells(uint64_t part, uint64_t all, int width);
/* Writes a cell; bars are drawn width wide. Returns buf. */
const char *top_cell(const struct top_row *row, enum top_column column, int width, char *buf,
                     size_t size);
/*
 * Writes the job's lent, borrowed and claimed memory on the GPU, and why it waits; "-": nothing.
 * Returns buf.
 */
const char *top_lending(const struct top_row *row, char *buf, size_t size);
/*
 * Times of a step as they were seen, each a character as high as its part of the longest. Returns
 * buf.
 */
const char *top_sparkline(const struct top_row *row, char *buf, size_t size);
/* Prints all of it as text, for where there is no terminal. */
void top_print(const struct top_rows *rows, FILE *out);

/* --- a change: `set`, `pause` or `resume`, in a process of its own while the screen goes on --- */

struct top_change {
	pid_t process; /* 0: none */
	int output;
	size_t length;
	char text[4096];  /* its output so far, as far as it fits */
	const char *said; /* in text, once it has ended */
};

/* Begins a change. arguments as after "spillway", NULL-terminated. */
void top_change_begin(struct top_change *change, const char *const *arguments);
/* Returns true once, when it has ended; said is then its complaint, or else its last line. */
bool top_change_has_ended(struct top_change *change);

/* --- screen --- */

struct top_view {
	struct top_rows rows;
	struct top_gpus gpus;
	struct top_choice choice;
	int selected, first; /* rows */
	bool help, is_read_only;
	const char *question; /* NULL: nothing is being typed */
	char typed[64];
	char message[512];
};

/*
 * Opens it. Returns false where the terminal cannot be used. Every end of the tool gives the
 * terminal back.
 */
bool top_screen_open(void);
void top_screen_close(void);
void top_screen_draw(struct top_view *view);
/* Returns a key of <curses.h>, or ERR after this time. */
int top_screen_key(int milliseconds);
/* Returns how many rows of the table there is room for. */
int top_screen_rows(const struct top_view *view);

#endif

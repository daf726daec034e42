/* SPDX-License-Identifier: MIT */
/*
 * `spillway what-if`: predictions for people and programs.
 */
#ifndef SPILLWAY_WHATIF_H
#define SPILLWAY_WHATIF_H

#include "core/state/segment.h"
#include "tools/formats/json.h"
#include "tools/whatif/model.h"

int command_what_if(int argc, char **argv);

enum { WHATIF_MOST = 32 };

/* What is asked; 0 of anything: what is usual. */
struct whatif_grid {
	uint64_t limit[WHATIF_MOST]; /* bytes */
	double part[WHATIF_MOST];    /* where it is not 0: the limit, of what the job held */
	int limits;
	double link[WHATIF_MOST]; /* bytes per second */
	int links;
	double share[WHATIF_MOST]; /* at most 1 */
	int shares;
	double slowdown; /* for which a limit is recommended: 0.1 is 10 % */
};

/*
 * Writes the members of an object: the predictions for a job's GPU, in the schema that
 * spillway-what-if(1) describes. Returns false, and writes nothing, where nothing was measured. For
 * the page of `web`, which has the view.
 */
bool whatif_json(struct json *json, const struct segment_view *view, int gpu,
                 const struct whatif_grid *grid);

/* Writes the curve of a model as a picture. */
void whatif_svg(FILE *out, const struct model *model, const struct whatif_grid *grid);

/*
 * Returns a line on a run that has ended: what spilling cost, as measured, and the limit estimated
 * to avoid it. NULL: nothing was measured, or it cost nothing. The caller frees it.
 */
char *whatif_summary(const struct segment_view *view);

/* Writes what is known of the run with this view to a file for later. False after saying why. */
bool whatif_record(const struct segment_view *view, const char *path);

#endif

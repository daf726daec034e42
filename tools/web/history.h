/* SPDX-License-Identifier: MIT */
/*
 * The last ten minutes of each job on each GPU, of which the page draws curves: for example, 300
 * samples at an interval of 2 s. Its memory is bounded, however many jobs come and go.
 */
#ifndef SPILLWAY_HISTORY_H
#define SPILLWAY_HISTORY_H

#include <stdint.h>

#include "tools/formats/json.h"

#define HISTORY_INTERVAL_NS UINT64_C(2000000000)

/* What a job has on a GPU at one time; the totals are since its beginning. */
struct history_sample {
	uint64_t at_ns; /* since 1970 */
	uint64_t device, host;
	uint64_t busy_ns, steps, launches; /* UINT64_MAX: not known */
};

struct history;

/* Ends the tool without memory. */
struct history *history_create(void);
/* Adds a sample of the job with this token on its GPU of this number. */
void history_add(struct history *history, uint64_t token, int gpu,
                 const struct history_sample *sample);
/* Forgets the jobs that have had no sample for ten minutes. */
void history_forget(struct history *history, uint64_t now_ns);
/* Writes a job's as "devices": of each GPU a list for each figure, oldest first. */
void history_json(const struct history *history, uint64_t token, struct json *json);

#endif

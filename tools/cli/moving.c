/* SPDX-License-Identifier: MIT */
/* Memory that moves. */
#include "tools/cli/moving.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/units.h"
#include "tools/formats/report_moves.h"
#include "tools/view/eviction.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"

enum { PROGRESS = 20 }; /* characters of a bar */

static uint64_t beyond(const struct segment_view *view, int device)
{
	const struct statistics *total = &view->job_total[device];
	uint64_t charged = view->charged[device][SEGMENT_ON_DEVICE];
	uint64_t limit = total->evicted ? 0 : total->limit_set;

	return charged > limit ? charged - limit : 0;
}

/* Finds a process with memory still on its way. */
static const struct segment_process *moving(const struct segment_view *view, int device)
{
	if (!beyond(view, device))
		return NULL;
	for (int i = 0; i < view->process_count; i++)
		if (eviction_moves(&view->process[i], device))
			return &view->process[i];
	return NULL;
}

/* The bytes of the job, by the least that both tiers together have held. */
static uint64_t job_bytes[SEGMENT_DEVICES] = {[0 ... SEGMENT_DEVICES - 1] = UINT64_MAX};

void moving_look(const struct segment_view *view)
{
	for (int i = 0; i < view->device_count; i++) {
		uint64_t bytes = eviction_bytes(view, i);

		if (bytes < job_bytes[i])
			job_bytes[i] = bytes;
	}
}

/*
 * Returns the bytes still to go that way; *who: a process that may report why they wait, or NULL.
 */
static uint64_t cli_moving_left(const struct segment_view *view, int device, enum moving_way way,
                                const struct segment_process **who)
{
	*who = way == MOVING_OUT ? moving(view, device) : NULL;
	if (way == MOVING_BACK)
		return eviction_coming_back(view, device, job_bytes[device]);
	return *who ? beyond(view, device) : 0;
}

uint64_t moving_left(const struct segment_view *view, enum moving_way way)
{
	const struct segment_process *who;
	uint64_t bytes = 0;

	for (int i = 0; i < view->device_count; i++)
		bytes += cli_moving_left(view, i, way, &who);
	return bytes;
}

bool moving_goes_on(const struct segment_view *view, enum moving_way way)
{
	return moving_left(view, way) != 0;
}

uint64_t moving_demoted(const struct segment_view *view)
{
	uint64_t bytes = 0;

	for (int i = 0; i < view->device_count; i++)
		bytes += view->job_total[i].demoted_bytes;
	return bytes;
}

/* Draws the part of the memory that has moved: "[#####...............]". */
static const char *progress(uint64_t left, uint64_t all, char bar[PROGRESS + 3])
{
	int done = all > left ? (int)((double)(all - left) / (double)all * PROGRESS) : 0;

	for (int i = 0; i < PROGRESS; i++)
		bar[i + 1] = i < done ? '#' : '.';
	bar[0] = '[';
	strcpy(bar + PROGRESS + 1, "]");
	return bar;
}

void moving_show(const struct segment_view *view, enum moving_way way)
{
	static uint64_t most[2][SEGMENT_DEVICES]; /* that was left so far */
	static bool stands;
	const struct segment_process *who;
	uint64_t bytes = 0;
	int device = 0;

	if (stands)
		fprintf(stderr, "\r\033[K");
	if (view && isatty(STDERR_FILENO))
		while (device < view->device_count &&
		       !(bytes = cli_moving_left(view, device, way, &who)))
			device++;
	stands = bytes > 0;
	if (stands) {
		char size[32], bar[PROGRESS + 3];

		if (bytes > most[way][device])
			most[way][device] = bytes;
		fprintf(stderr, "gpu %d: %s still to be moved%s %s", device,
		        units_format_size(bytes, size, sizeof size),
		        way == MOVING_BACK ? " back" : "", progress(bytes, most[way][device], bar));
		if (who && who->device[device].move_pending > MOVE_SOON)
			fprintf(stderr, ": %s", report_pending(&who->device[device]));
	}
	fflush(stderr);
}

/* Says why memory stays that could leave, which is a fault; NULL: it cannot. */
static const char *fault_in(const struct segment_view *view, int device, enum eviction verdict,
                            const struct segment_process *who)
{
	const struct statistics *s = who ? &who->device[device] : NULL;

	switch (verdict) {
	case EVICTION_INELASTIC:
		return report_inelastic(view, device, s);
	case EVICTION_HOST_FULL:
		return report_held_meaning(HELD_HOST_FULL);
	case EVICTION_GOES_ON:
		return report_pending(s);
	default:
		return NULL;
	}
}

static const char *cli_moving_why_it_stays(enum eviction verdict)
{
	switch (verdict) {
	case EVICTION_DRAINS:
		return "of processes that have ended";
	case EVICTION_FOREIGN:
		return report_held_meaning(HELD_FOREIGN);
	case EVICTION_PINNED:
		return report_held_meaning(HELD_PINNED);
	default:
		return NULL;
	}
}

static bool report_device(const struct segment_view *view, int device)
{
	const struct segment_process *who;
	enum eviction verdict = eviction_of(view, device, &who);
	const char *fault = fault_in(view, device, verdict, who);
	const char *why = cli_moving_why_it_stays(verdict);
	char on_host[32], on_device[32];

	if (verdict == EVICTION_REVOKED) {
		complain("gpu %d: job '%s' was resumed meanwhile", device, view->job);
		return false;
	}
	units_format_size(view->charged[device][SEGMENT_ON_HOST], on_host, sizeof on_host);
	units_format_size(view->charged[device][SEGMENT_ON_DEVICE], on_device, sizeof on_device);
	printf("gpu %d: evicted, %s on the host, %s on the GPU%s%s%s\n", device, on_host, on_device,
	       why ? " (" : "", why ? why : "", why ? ")" : "");
	if (fault)
		complain("gpu %d: %s of job '%s' stay on the GPU: %s%s", device, on_device,
		         view->job, verdict == EVICTION_GOES_ON ? "not moved in time: " : "",
		         fault);
	return !fault;
}

bool moving_report_eviction(const struct segment_view *view)
{
	bool done = true;

	if (!jobs_live_process(view)) {
		complain("job '%s' has ended", view->job);
		return false;
	}
	for (int i = 0; i < view->device_count; i++)
		done &= !jobs_gpu_is_used(view, i) || report_device(view, i);
	return done;
}

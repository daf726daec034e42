/* SPDX-License-Identifier: MIT */
/* Moving memory, as text. */
#include "tools/formats/report_moves.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/formats/device_table.h"
#include "tools/formats/value.h"
#include "tools/view/counters.h"
#include "tools/view/jobs.h"
#include "tools/view/sharing.h"

static const char nothing_moves[] =
    "it was allocated where nothing moves: in a pool that can be exported or is bounded, during a "
    "capture, as managed memory, or with spill = off";

/* Explanations that follow a word that says little by itself. */
static const char *const why_not_elastic[] = {
    [ELASTIC_UNUSED] = nothing_moves,
    [ELASTIC_NO_VMM] = "the driver or the GPU has no virtual memory management",
    [ELASTIC_NO_HOST] = "no virtual memory on the host, or it is not permitted",
    [ELASTIC_SPILL] = "memory made by spill = managed or pinned cannot move",
    [ELASTIC_NO_ADDRESSES] = "no range of addresses could be reserved",
};

static const char *const why_pending[] = {
    [MOVE_NONE] = "there is much of it",
    [MOVE_SOON] = "it is being prepared",
    [MOVE_CAPTURE] = "a stream capture is active",
    [MOVE_INSIDE] = "a thread stays inside a call of the driver",
    [MOVE_WORK] = "work on the GPU does not end",
    [MOVE_HOST_LIMIT] = "the host has no room: raise it with --host-memory",
    [MOVE_PINNED] = "the memory that is left must stay where it is",
    [MOVE_DEVICE_FULL] = "the GPU itself has no room",
    [MOVE_FAILED] = "the driver refuses it; it is tried again",
};

static const char *const why_held[] = {
    [HELD_CHANGING] = "the settings are changing just now",
    [HELD_PENDING] = "memory is still being moved",
    [HELD_FOREIGN] =
        "memory that the driver allocated, such as contexts and arrays, cannot leave the GPU",
    [HELD_PINNED] = "exported, registered or pinned memory cannot leave the GPU",
    [HELD_HOST_FULL] = "the host has no room: raise it with --host-memory, or end other programs",
};

#define MEANING(list, code) \
	((code) < sizeof(list) / sizeof *(list) && (list)[code] ? (list)[code] : "unknown")

static bool may_move(const struct segment_view *view)
{
	for (int i = 0; i < view->device_count; i++)
		if (view->job_total[i].elastic != ELASTIC_UNUSED)
			return true;
	return false;
}

static const char *elastic(const struct segment_view *view, int device, char *buf, size_t size)
{
	uint64_t code = view->job_total[device].elastic;

	(void)buf;
	(void)size;
	return code == ELASTIC_UNUSED ? "-" : code == ELASTIC_YES ? "yes" : "no";
}

static const char *all_moves(const struct segment_view *view, int device, char *buf, size_t size)
{
	const struct statistics *total = &view->job_total[device];

	return value_in_unit(COUNTER_count, total->demotions + total->promotions, buf, size);
}

static const struct device_column moves[] = {
    {"<ELASTIC", 0, elastic},
    DEVICE_COUNTER("DEMOTED", demoted_bytes),
    DEVICE_COUNTER("PROMOTED", promoted_bytes),
    {"MOVES", 0, all_moves},
    DEVICE_COUNTER("STALLED", move_ns),
    DEVICE_COUNTER("LONGEST STALL", move_longest_ns),
    DEVICE_COUNTER("<WAITS FOR", move_pending),
    {0},
};

const char *report_held(const struct statistics *total)
{
	if (total->held_reason == HELD_NONE || total->limit_held <= total->limit_set)
		return NULL;
	return COUNTER_WORD(total, held_reason);
}

const char *report_pending(const struct statistics *statistics)
{
	return MEANING(why_pending, statistics->move_pending);
}

const char *report_held_meaning(uint64_t held_reason)
{
	return MEANING(why_held, held_reason);
}

const char *report_inelastic(const struct segment_view *view, int device,
                             const struct statistics *statistics)
{
	if (statistics->elastic == ELASTIC_UNUSED && view->is_unnamed &&
	    view->job_total[device].limit_set == CONFIG_UNLIMITED)
		return "the job has no name and no limit, so its memory is the driver's own";
	return MEANING(why_not_elastic, statistics->elastic);
}

/* Prints the provider: "vmm_host (vmm_numa: not permitted)". */
static void print_provider(const struct statistics *total)
{
	const struct {
		const char *name;
		uint64_t error;
	} others[] = {
	    {"vmm_numa", total->numa_error},
	    {"vmm_host", total->host_error},
	    {"managed", total->managed_error},
	    {"pinned", total->pinned_error},
	};
	const char *between = " (";
	char meaning[32];

	printf("host memory by %s",
	       total->provider == PROVIDER_NONE ? "nothing yet" : COUNTER_WORD(total, provider));
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		if (!others[i].error)
			continue;
		printf("%s%s: %s", between, others[i].name,
		       counter_error(others[i].error, meaning, sizeof meaning));
		between = ", ";
	}
	printf("%s\n", *between == ',' ? ")" : "");
}

static const char *const why_placed[] = {
    [PLACED_BY_HEAT] = "memory that was used least lately is on the host",
    [PLACED_SURVEYED] = "measuring which memory kernels use",
    [PLACED_KEPT] = "measured: another placement would gain little",
    [PLACED_BALANCED] = "measured: memory is where kernels lose least time",
};

/*
 * Prints the rule by which memory is placed, and the findings of a survey: how long kernels take.
 */
static void print_placement(int gpu, const struct statistics *total)
{
	double before = (double)total->kernels_before / 100000;
	double best = (double)total->kernels_best / 100000;

	printf("gpu %d: placement %s (%s), shrink %s\n", gpu, COUNTER_WORD(total, placement),
	       MEANING(why_placed, total->placement), COUNTER_WORD(total, shrink));
	if (before > 0)
		printf("gpu %d: measured over two steps: kernels take %.*f times as long as with "
		       "no memory on the host, with the best placement %.*f times (%.0f %% less)\n",
		       gpu, UNITS_TIMES(before), UNITS_TIMES(best), 100 * (before - best) / before);
}

static void report_moves_print_notes(const struct segment_view *view, int gpu)
{
	const struct statistics *total = &view->job_total[gpu];
	char size[32];
	struct sharing_seen seen;

	sharing_see(view, gpu, &seen);
	if (total->elastic > ELASTIC_YES)
		printf("gpu %d: elastic no: %s\n", gpu, report_inelastic(view, gpu, total));
	/* The pause ends with the job. */
	if (total->evicted && jobs_live_process(view))
		printf("gpu %d: evicted by pause --evict, %s on the GPU\n", gpu,
		       units_format_size(total->device_used, size, sizeof size));
	if (total->evicted && total->held_reason != HELD_NONE)
		printf("gpu %d: stays on the GPU: %s (%s)\n", gpu,
		       report_held_meaning(total->held_reason), COUNTER_WORD(total, held_reason));
	/* Lent memory waits for the job's next call alone. */
	if (total->move_pending != MOVE_NONE &&
	    !(seen.lent && total->move_pending == MOVE_DEVICE_FULL))
		printf("gpu %d: a move waits: %s\n", gpu, report_pending(total));
	if (report_held(total))
		printf("gpu %d: %s in use, above the limit: %s (%s)\n", gpu,
		       units_format_size(total->limit_held, size, sizeof size),
		       report_held_meaning(total->held_reason), report_held(total));
	if (total->placement != PLACED_NOWHERE)
		print_placement(gpu, total);
	if (total->limit_grown && total->limit_set != CONFIG_UNLIMITED)
		printf("gpu %d: the limit has grown by %s (memory_max)\n", gpu,
		       units_format_size(total->limit_grown, size, sizeof size));
	if (total->provider != PROVIDER_NONE || total->numa_error || total->host_error ||
	    total->managed_error || total->pinned_error) {
		printf("gpu %d: ", gpu);
		print_provider(total);
	}
}

static void print_orphaned(int gpu, uint64_t bytes)
{
	char size[32];

	if (bytes)
		printf("gpu %d: %s stay charged to the job: its processes exported them and freed "
		       "them "
		       "or ended, and processes of other jobs have them open\n",
		       gpu, units_format_size(bytes, size, sizeof size));
}

void report_moves(const struct segment_view *view)
{
	if (may_move(view)) {
		printf("\n");
		device_table(view, moves);
	}
	for (int i = 0; i < view->device_count; i++) {
		report_moves_print_notes(view, i);
		print_orphaned(i, view->orphaned[i]);
	}
}

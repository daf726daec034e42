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

static const char nothing_moves[] =
    "it was allocated where nothing moves: in a pool that can be exported or is bounded, during a "
    "capture, as managed memory, or with spill = off";

/* Explanations that follow a word that says little by itself. */
static const char *const why_not_elastic[] = {
    [ELASTIC_UNUSED] = nothing_moves,
    [ELASTIC_NO_VMM] = "the driver or the GPU has no virtual memory management",
    [ELASTIC_NO_HOST] = "no virtual memory on the host, or it is not permitted",
    [ELASTIC_SPILL] = "what spill names is memory that stays where it is",
    [ELASTIC_NO_ADDRESSES] = "no range of addresses could be had",
};

static const char *const why_pending[] = {
    [MOVE_NONE] = "there is much of it",
    [MOVE_SOON] = "it is being prepared",
    [MOVE_CAPTURE] = "a stream capture is active",
    [MOVE_INSIDE] = "a thread stays inside a call of the driver",
    [MOVE_WORK] = "work on the GPU does not end",
    [MOVE_HOST_LIMIT] = "the host has no room (host_memory)",
    [MOVE_PINNED] = "what is left must stay where it is",
    [MOVE_DEVICE_FULL] = "the GPU has no room, whatever the limit says",
    [MOVE_FAILED] = "the driver refuses it; it is tried again",
};

static const char *const why_held[] = {
    [HELD_CHANGING] = "its settings are changing just now",
    [HELD_PENDING] = "memory is still being moved",
    [HELD_FOREIGN] = "contexts, arrays and the like",
    [HELD_PINNED] = "shared, registered or pin_new",
    [HELD_HOST_FULL] = "host_memory, or no memory",
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
    DEVICE_COUNTER("CLOSED", move_ns),
    DEVICE_COUNTER("LONGEST", move_longest_ns),
    DEVICE_COUNTER("<PENDING", move_pending),
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
		return "it is the driver's own, as that of any job that nobody named or limited";
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
    [PLACED_BY_HEAT] = "what was not used for long is on the host",
    [PLACED_SURVEYED] = "what kernels use is being measured",
    [PLACED_KEPT] = "little would be gained elsewhere",
    [PLACED_BALANCED] = "memory is where it holds kernels up least",
};

/* Prints what decides where memory is, and what a survey found: how long kernels take. */
static void print_placement(int gpu, const struct statistics *total)
{
	double before = (double)total->kernels_before / 100000;
	double best = (double)total->kernels_best / 100000;

	printf("gpu %d: placement %s (%s), shrink %s\n", gpu, COUNTER_WORD(total, placement),
	       MEANING(why_placed, total->placement), COUNTER_WORD(total, shrink));
	if (before > 0)
		printf("gpu %d: as it was surveyed kernels took %.2f times as long as with nothing "
		       "on the host; memory best placed, %.2f times: %.0f %% less\n",
		       gpu, before, best, 100 * (before - best) / before);
}

static void print_notes(const struct segment_view *view, int gpu)
{
	const struct statistics *total = &view->job_total[gpu];
	char size[32];

	if (total->elastic > ELASTIC_YES)
		printf("gpu %d: elastic no: %s\n", gpu, report_inelastic(view, gpu, total));
	if (total->evicted)
		printf("gpu %d: evicted by pause --evict, %s on the GPU\n", gpu,
		       units_format_size(total->device_used, size, sizeof size));
	if (total->evicted && total->held_reason != HELD_NONE)
		printf("gpu %d: what is left there: %s (%s)\n", gpu,
		       COUNTER_WORD(total, held_reason), report_held_meaning(total->held_reason));
	if (total->move_pending != MOVE_NONE)
		printf("gpu %d: a move waits: %s\n", gpu, report_pending(total));
	if (report_held(total))
		printf("gpu %d: limit held above limit set: %s (%s)\n", gpu, report_held(total),
		       report_held_meaning(total->held_reason));
	if (total->placement != PLACED_NOWHERE)
		print_placement(gpu, total);
	if (total->limit_grown && total->limit_set != CONFIG_UNLIMITED)
		printf("gpu %d: limit set has grown by %s\n", gpu,
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
		printf("gpu %d: orphaned, and charged to the job: %s, exported by processes that "
		       "freed them or ended, and held by others\n",
		       gpu, units_format_size(bytes, size, sizeof size));
}

void report_moves(const struct segment_view *view)
{
	if (may_move(view)) {
		printf("\n");
		device_table(view, moves);
	}
	for (int i = 0; i < view->device_count; i++) {
		print_notes(view, i);
		print_orphaned(i, view->orphaned[i]);
	}
}

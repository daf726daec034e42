/* SPDX-License-Identifier: MIT */
/*
 * Tests of the result of an eviction, computed from the reports and the memory of each process of
 * the job. Also of the memory that is still to come back after it.
 */
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "tools/view/eviction.h"

enum { PROCESSES = 2 };

struct one {
	enum segment_slot_state state;
	uint64_t held_reason, elastic, bytes, allocations;
};

static const struct {
	const char *what;
	struct one process[PROCESSES];
	enum eviction expected;
	int who; /* whose reason it is; -1: nobody's */
} table[] = {
    {"all has left", {{SLOT_LIVE, HELD_NONE, ELASTIC_YES, 0, 3}}, EVICTION_DONE, -1},
    /* Reasons are from before the bytes: "0 B stay on the GPU" for want of room on the host. */
    {"the host was full", {{SLOT_LIVE, HELD_HOST_FULL, ELASTIC_YES, 0, 3}}, EVICTION_DONE, -1},
    {"it was on its way", {{SLOT_LIVE, HELD_PENDING, ELASTIC_YES, 0, 3}}, EVICTION_DONE, -1},
    {"it could not move", {{SLOT_LIVE, HELD_FOREIGN, ELASTIC_NO_VMM, 0, 3}}, EVICTION_DONE, -1},
    {"it is on its way", {{SLOT_LIVE, HELD_PENDING, ELASTIC_YES, 5, 3}}, EVICTION_GOES_ON, 0},
    {"the host is full", {{SLOT_LIVE, HELD_HOST_FULL, ELASTIC_YES, 5, 3}}, EVICTION_HOST_FULL, 0},
    {"a context", {{SLOT_LIVE, HELD_FOREIGN, ELASTIC_YES, 5, 0}}, EVICTION_FOREIGN, 0},
    {"a context, no arena", {{SLOT_LIVE, HELD_FOREIGN, ELASTIC_UNUSED, 5, 0}}, EVICTION_FOREIGN, 0},
    {"pinned", {{SLOT_LIVE, HELD_PINNED, ELASTIC_YES, 5, 1}}, EVICTION_PINNED, 0},
    {"no arena", {{SLOT_LIVE, HELD_FOREIGN, ELASTIC_NO_VMM, 5, 1}}, EVICTION_INELASTIC, 0},
    {"what drains", {{SLOT_DRAINING, HELD_PENDING, ELASTIC_YES, 5, 1}}, EVICTION_DRAINS, -1},
    /* The gravest of several counts, and those alone that hold something. */
    {"one has left, the other has its context",
     {{SLOT_LIVE, HELD_HOST_FULL, ELASTIC_YES, 0, 3}, {SLOT_LIVE, HELD_FOREIGN, ELASTIC_YES, 5, 0}},
     EVICTION_FOREIGN,
     1},
    {"one is on its way",
     {{SLOT_LIVE, HELD_PINNED, ELASTIC_YES, 5, 3}, {SLOT_LIVE, HELD_PENDING, ELASTIC_YES, 5, 0}},
     EVICTION_GOES_ON,
     1},
    {"the first of equals",
     {{SLOT_LIVE, HELD_PINNED, ELASTIC_YES, 5, 3}, {SLOT_LIVE, HELD_PINNED, ELASTIC_YES, 5, 0}},
     EVICTION_PINNED,
     0},
    {"one drains, one was on its way",
     {{SLOT_DRAINING, HELD_NONE, ELASTIC_YES, 5, 3}, {SLOT_LIVE, HELD_PENDING, ELASTIC_YES, 0, 3}},
     EVICTION_DRAINS,
     -1},
};

START_TEST(verdicts)
{
	struct segment_view *view = calloc(1, sizeof(*view));
	const struct segment_process *who;

	ck_assert_ptr_nonnull(view);
	view->process = calloc(PROCESSES, sizeof(*view->process));
	ck_assert_ptr_nonnull(view->process);
	view->device_count = 1;
	view->job_total[0].evicted = 1;
	for (int i = 0; i < PROCESSES; i++) {
		const struct one *one = &table[_i].process[i];
		struct segment_process *process = &view->process[i];

		if (one->state == SLOT_FREE)
			break;
		view->process_count++;
		process->state = one->state;
		process->charged[0][SEGMENT_ON_DEVICE] = one->bytes;
		process->charged[0][SEGMENT_ON_HOST] = 100;
		process->device[0].held_reason = one->held_reason;
		process->device[0].elastic = one->elastic;
		process->device[0].allocations = one->allocations;
		view->charged[0][SEGMENT_ON_DEVICE] += one->bytes;
	}
	ck_assert_msg(eviction_of(view, 0, &who) == table[_i].expected, "%s: %d, not %d",
	              table[_i].what, (int)eviction_of(view, 0, &who), (int)table[_i].expected);
	ck_assert_ptr_eq(who, table[_i].who < 0 ? NULL : &view->process[table[_i].who]);
	view->job_total[0].evicted = 0;
	ck_assert_int_eq(eviction_of(view, 0, &who), EVICTION_REVOKED);
	free(view->process);
	free(view);
}
END_TEST

/* In MiB; the limit is 128. */
static const struct {
	const char *what;
	uint64_t bytes, on_device, device_pool, on_host, host_pool;
	enum move_pending pending;
	uint64_t expected;
} returns[] = {
    {"nothing has begun", 128, 0, 0, 128, 0, MOVE_NONE, 128},
    {"half is back", 128, 64, 0, 64, 0, MOVE_NONE, 64},
    {"all is back", 128, 128, 0, 0, 0, MOVE_NONE, 0},
    {"the device's memory is all made, no byte has come", 128, 128, 0, 128, 0, MOVE_WORK, 128},
    {"48 came, the rest of the device's memory is made", 128, 128, 0, 80, 0, MOVE_NONE, 80},
    {"kept ready on the device", 128, 128, 48, 48, 0, MOVE_NONE, 48},
    {"kept ready on the host", 128, 128, 0, 64, 64, MOVE_NONE, 0},
    {"as much as the limit lets", 200, 120, 0, 80, 0, MOVE_NONE, 8},
    {"no more than the limit lets", 200, 128, 0, 72, 0, MOVE_NONE, 0},
    {"8 of 72 on their way, and the limit lets no more", 200, 128, 0, 80, 0, MOVE_NONE, 8},
    {"the device is full", 128, 64, 0, 64, 0, MOVE_DEVICE_FULL, 0},
};

START_TEST(coming_back)
{
	struct segment_view *view = calloc(1, sizeof(*view));
	struct statistics *total;

	ck_assert_ptr_nonnull(view);
	view->process = calloc(1, sizeof(*view->process));
	ck_assert_ptr_nonnull(view->process);
	view->device_count = view->process_count = 1;
	view->process[0].device[0].move_pending = returns[_i].pending;
	total = &view->job_total[0];
	total->elastic = ELASTIC_YES;
	total->limit_set = 128;
	total->device_pool = returns[_i].device_pool;
	total->host_pool = returns[_i].host_pool;
	view->charged[0][SEGMENT_ON_DEVICE] = returns[_i].on_device;
	view->charged[0][SEGMENT_ON_HOST] = returns[_i].on_host;
	ck_assert_msg(eviction_coming_back(view, 0, returns[_i].bytes) == returns[_i].expected,
	              "%s: %" PRIu64 ", not %" PRIu64, returns[_i].what,
	              eviction_coming_back(view, 0, returns[_i].bytes), returns[_i].expected);
	total->elastic = ELASTIC_NO_VMM;
	ck_assert_uint_eq(eviction_coming_back(view, 0, returns[_i].bytes), 0);
	free(view->process);
	free(view);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("eviction");

	tcase_add_loop_test(tests, verdicts, 0, sizeof(table) / sizeof(table[0]));
	tcase_add_loop_test(tests, coming_back, 0, sizeof(returns) / sizeof(returns[0]));
	return suite_run("eviction", tests);
}

/* SPDX-License-Identifier: MIT */
/* Verdicts: the conclusions from the ledgers of a job's processes, by a table. */
#include <check.h>

#include "suite.h"
#include "core/ledger/verdict.h"

enum { PROCESSES = 3 };
#define NONE UINT64_MAX

/* A process; generation 0: none. */
struct one {
	uint64_t generation, limit, held;
	enum move_pending blocker;
	uint64_t blocker_generation; /* 0: as generation */
	enum elastic elastic;        /* 0: yes */
	uint64_t pinned;
	bool is_evicted, is_changing;
};

static const struct row {
	const char *what;
	struct one process[PROCESSES];
	struct standing standing; /* charged 0: what the processes hold */
	enum held_reason held;
	uint64_t limit, limit_held, beyond;
	enum move_pending pending;
} table[] = {
    {.what = "nobody has met the device", .held = HELD_NONE},
    {.what = "no limit", .process = {{1, NONE, 50}}, .limit = NONE, .limit_held = NONE},
    {.what = "within", .process = {{1, 100, 100}}, .limit = 100, .limit_held = 100},
    {.what = "beyond, and nobody has looked",
     .process = {{1, 100, 130}},
     .held = HELD_PENDING,
     .limit = 100,
     .limit_held = 130,
     .beyond = 30},
    {.what = "beyond by two together",
     .process = {{1, 100, 60}, {1, 100, 60}},
     .held = HELD_PENDING,
     .limit = 100,
     .limit_held = 120,
     .beyond = 20},
    {.what = "a work that does not end is waited for",
     .process = {{1, 100, 130, MOVE_WORK}},
     .held = HELD_PENDING,
     .limit = 100,
     .limit_held = 130,
     .beyond = 30,
     .pending = MOVE_WORK},
    {.what = "what is left must stay: the driver's",
     .process = {{1, 100, 130, MOVE_PINNED}},
     .held = HELD_FOREIGN,
     .limit = 100,
     .limit_held = 130,
     .beyond = 30,
     .pending = MOVE_PINNED},
    {.what = "what is left must stay: pinned",
     .process = {{1, 100, 130, MOVE_PINNED, .pinned = 30}},
     .held = HELD_PINNED,
     .limit = 100,
     .limit_held = 130,
     .beyond = 30,
     .pending = MOVE_PINNED},
    {.what = "what is left must stay: nobody's any more",
     .process = {{1, 100, 110, MOVE_PINNED}},
     .standing = {.charged = 130, .orphaned = 20},
     .held = HELD_PINNED,
     .limit = 100,
     .limit_held = 130,
     .beyond = 30,
     .pending = MOVE_PINNED},
    {.what = "the host is full",
     .process = {{1, 100, 130, MOVE_HOST_LIMIT}},
     .held = HELD_HOST_FULL,
     .limit = 100,
     .limit_held = 130,
     .beyond = 30,
     .pending = MOVE_HOST_LIMIT},
    {.what = "a blocker of older settings says nothing of these",
     .process = {{3, 100, 130, MOVE_HOST_LIMIT, .blocker_generation = 2}},
     .held = HELD_PENDING,
     .limit = 100,
     .limit_held = 130,
     .beyond = 30},
    {.what = "a blocker says nothing of what is within",
     .process = {{1, 100, 100, MOVE_HOST_LIMIT}},
     .held = HELD_NONE,
     .limit = 100,
     .limit_held = 100,
     .pending = MOVE_HOST_LIMIT},
    {.what = "memory that cannot move",
     .process = {{1, 100, 130, .elastic = ELASTIC_NO_VMM}},
     .held = HELD_FOREIGN,
     .limit = 100,
     .limit_held = 130,
     .beyond = 30},
    {.what = "of two reasons the graver one counts",
     .process = {{1, 100, 60, MOVE_WORK}, {1, 100, 70, MOVE_HOST_LIMIT}},
     .held = HELD_HOST_FULL,
     .limit = 100,
     .limit_held = 130,
     .beyond = 30,
     .pending = MOVE_HOST_LIMIT},
    {.what = "who holds nothing has no reason",
     .process = {{1, 100, 130, MOVE_WORK}, {1, 100, 0, MOVE_PINNED}},
     .held = HELD_PENDING,
     .limit = 100,
     .limit_held = 130,
     .beyond = 30,
     .pending = MOVE_PINNED},
    {.what = "what the dead hold drains",
     .process = {{1, 100, 0, MOVE_PINNED, .pinned = 5}},
     .standing = {.charged = 130},
     .held = HELD_FOREIGN,
     .limit = 100,
     .limit_held = 130,
     .beyond = 30,
     .pending = MOVE_PINNED},
    {.what = "one has older settings: the newest are in force, and are not held yet",
     .process = {{2, 100, 60}, {1, 400, 20}},
     .held = HELD_PENDING,
     .limit = 100,
     .limit_held = 100},
    {.what = "one has older settings, whatever the other's reason",
     .process = {{2, 100, 160, MOVE_HOST_LIMIT}, {1, 400, 20}},
     .held = HELD_PENDING,
     .limit = 100,
     .limit_held = 180,
     .beyond = 80,
     .pending = MOVE_HOST_LIMIT},
    {.what = "settings are known that none of them has yet",
     .process = {{1, 100, 60}},
     .standing = {.generation = 2},
     .held = HELD_PENDING,
     .limit = 100,
     .limit_held = 100},
    {.what = "who has not met the device is not behind",
     .process = {{2, 100, 60}, {.limit = 1}},
     .held = HELD_NONE,
     .limit = 100,
     .limit_held = 100},
    {.what = "evicted: all is beyond, whatever the limit",
     .process = {{1, 100, 60, .is_evicted = true}},
     .held = HELD_PENDING,
     .limit = 100,
     .limit_held = 100,
     .beyond = 60},
    {.what = "evicted, and nothing is left",
     .process = {{1, 100, 0, MOVE_PINNED, .is_evicted = true}},
     .held = HELD_NONE,
     .limit = 100,
     .limit_held = 100,
     .pending = MOVE_PINNED},
    {.what = "evicted by the newest settings alone",
     .process = {{2, 100, 60}, {1, 100, 0, .is_evicted = true}},
     .held = HELD_PENDING,
     .limit = 100,
     .limit_held = 100},
    {.what = "what cannot be read is not said to be held",
     .process = {{1, 100, 60}, {.is_changing = true, .held = 10}},
     .held = HELD_CHANGING,
     .limit = 100,
     .limit_held = 100},
    {.what = "nor is it while it is known to be more",
     .process = {{1, 100, 160, MOVE_HOST_LIMIT}, {.is_changing = true}},
     .held = HELD_CHANGING,
     .limit = 100,
     .limit_held = 160,
     .beyond = 60,
     .pending = MOVE_HOST_LIMIT},
    {.what = "limits that differ for good: the higher one",
     .process = {{4, 100, 60}, {4, 300, 20}},
     .held = HELD_NONE,
     .limit = 300,
     .limit_held = 300},
};

START_TEST(verdicts)
{
	const struct row *row = &table[_i];
	struct ledger_copy ledger[PROCESSES] = {{0}};
	struct standing standing = row->standing;
	struct verdict verdict;
	int count = 0;

	for (int i = 0; i < PROCESSES; i++) {
		const struct one *one = &row->process[i];

		if (!one->generation && !one->limit && !one->is_changing)
			break;
		ledger[count++] = (struct ledger_copy){
		    .is_whole = !one->is_changing,
		    .facts = {.generation = one->generation,
		              .limit = one->limit,
		              .evicted = one->is_evicted,
		              .elastic = one->elastic ? one->elastic : ELASTIC_YES,
		              .blocker = one->blocker,
		              .blocker_generation = one->blocker_generation
		                                        ? one->blocker_generation
		                                        : one->generation},
		    .charged = {one->held},
		    .pinned = one->pinned,
		};
		standing.charged += row->standing.charged ? 0 : one->held;
	}
	verdict = verdict_of(ledger, count, &standing);
	ck_assert_msg(verdict.held == row->held, "%s: %d, not %d", row->what, (int)verdict.held,
	              (int)row->held);
	ck_assert_msg(verdict.limit == row->limit, "%s: limit %ju", row->what,
	              (uintmax_t)verdict.limit);
	ck_assert_msg(verdict.limit_held == row->limit_held, "%s: limit held %ju", row->what,
	              (uintmax_t)verdict.limit_held);
	ck_assert_msg(verdict.beyond == row->beyond, "%s: beyond %ju", row->what,
	              (uintmax_t)verdict.beyond);
	ck_assert_msg(verdict.pending == row->pending, "%s: pending %d", row->what,
	              (int)verdict.pending);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("verdict");

	tcase_add_loop_test(tests, verdicts, 0, sizeof(table) / sizeof(table[0]));
	return suite_run("verdict", tests);
}

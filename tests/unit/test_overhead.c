/* SPDX-License-Identifier: MIT */
/* Overhead: the figure that follows from NVML's answer and the charges. */
#include "core/memory/uses/overhead.c" /* overhead_follow(), too */
#include "tests/unit/suite.h"

#define MIB ((uint64_t)1 << 20)

/* In MiB. most: what the last look allowed; FIRST: there was none. */
enum { FIRST = -1 };

static const struct row {
	const char *what;
	uint64_t bytes;
	int most;
	struct overhead_look look;
	uint64_t expected;
	bool is_settled;
} rows[] = {
    {"the first context", 0, FIRST, {300, {0, 0}, 0, 0}, 300, false},
    {"as before", 300, 300, {300, {0, 0}, 0, 0}, 300, true},
    {"of what is held some is charged", 300, 300, {500, {200, 200}, 0, 0}, 300, true},
    {"a module more", 300, 300, {512, {200, 200}, 0, 0}, 312, false},
    {"a module less is not believed at once", 312, 312, {500, {200, 200}, 0, 0}, 312, false},
    {"but the second time", 312, 300, {500, {200, 200}, 0, 0}, 300, false},
    {"two looks that differ: the larger", 312, 290, {500, {200, 200}, 0, 0}, 300, false},
    {"and the larger may be the first", 312, 305, {500, {200, 200}, 0, 0}, 305, false},
    {"a chunk that is charged and not made yet", 300, 300, {500, {232, 232}, 0, 0}, 300, false},
    {"a chunk charged while NVML is asked", 300, 300, {500, {200, 232}, 0, 0}, 300, true},
    {"a chunk given back while it is asked", 300, 300, {500, {232, 200}, 0, 0}, 300, true},
    {"a chunk made while it is asked is no overhead", 300, 300, {532, {200, 232}, 0, 0}, 300, true},
    {"managed memory that is not there", 300, 300, {300, {64, 64}, 64, 0}, 300, true},
    {"managed memory that came", 300, 300, {364, {64, 64}, 64, 0}, 300, true},
    {"a module beside managed memory that came", 300, 300, {376, {64, 64}, 64, 0}, 312, false},
    {"another process's memory", 300, 300, {500, {208, 208}, 8, 0}, 300, true},
    {"less is held than is charged", 300, 0, {100, {200, 200}, 0, 0}, 0, false},
    {"more is elsewhere than is charged", 300, 300, {300, {10, 10}, 20, 0}, 300, true},
    {"given up or imported, and counted as ours", 300, 300, {320, {0, 0}, 0, 20}, 300, true},
    {"given up or imported, and not counted", 300, 300, {300, {0, 0}, 0, 20}, 300, true},
    {"a module, whatever is imported", 300, 300, {340, {0, 0}, 0, 20}, 320, false},
    {"nothing is held", 300, 0, {0, {0, 0}, 0, 0}, 0, false},
};

START_TEST(the_figure_follows_what_is_held)
{
	const struct row *row = &rows[_i];
	struct overhead overhead = {row->bytes * MIB,
	                            row->most == FIRST ? UINT64_MAX : (uint64_t)row->most * MIB};
	struct overhead_look look = {row->look.held * MIB,
	                             {row->look.charged[0] * MIB, row->look.charged[1] * MIB},
	                             row->look.elsewhere * MIB,
	                             row->look.uncharged * MIB};
	bool is_settled = overhead_follow(&overhead, &look);

	ck_assert_msg(overhead.bytes == row->expected * MIB, "%s: %ju MiB, expected %ju", row->what,
	              (uintmax_t)(overhead.bytes / MIB), (uintmax_t)row->expected);
	ck_assert_msg(is_settled == row->is_settled, "%s: it is%s settled", row->what,
	              is_settled ? "" : " not");
}
END_TEST

/*
 * Whatever was seen before, looks that see the same end with the truth, and never below it on the
 * way.
 */
START_TEST(looks_at_rest_end_with_the_truth)
{
	for (uint64_t first = 0; first <= 64; first += 4)
		for (uint64_t second = 0; second <= 64; second += 4) {
			struct overhead overhead = {0, UINT64_MAX};
			int looks = 0;

			overhead_follow(&overhead, &(struct overhead_look){.held = first});
			overhead_follow(&overhead, &(struct overhead_look){.held = second});
			while (!overhead_follow(&overhead, &(struct overhead_look){.held = 24})) {
				ck_assert_uint_ge(overhead.bytes, 24);
				ck_assert_int_lt(looks++, 3);
			}
			ck_assert_uint_eq(overhead.bytes, 24);
		}
}
END_TEST

int main(void)
{
	TCase *figure = tcase_create("figure");

	tcase_add_loop_test(figure, the_figure_follows_what_is_held, 0,
	                    sizeof(rows) / sizeof(*rows));
	tcase_add_test(figure, looks_at_rest_end_with_the_truth);
	return suite_run("overhead", figure);
}

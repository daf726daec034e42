/* SPDX-License-Identifier: MIT */
/*
 * A short run of the fuzz target of segments: a good one, and random changes of it, the same in
 * every run.
 */
#include "tests/unit/fuzz_changes.h"

#include "core/state/layout.h"

enum { RUNS = 400 };

/* Where a change is likely to matter. */
static uint32_t some_offset(void)
{
	uint64_t number = scratch_random();

	switch (number % 4) {
	case 0:
		return (uint32_t)(number >> 8 & 0xff);
	case 1:
		return (uint32_t)((number >> 8) % sizeof(struct segment_header));
	case 2: /* a seat's head */
		return (uint32_t)(offsetof(struct segment_file, row[0].seat) +
		                  (number >> 8) % 4 * sizeof(struct segment_seat) +
		                  (number >> 16) % 128);
	default:
		return (uint32_t)((number >> 8) % offsetof(struct segment_file, row[1]));
	}
}

START_TEST(none_does_harm)
{
	static const uint8_t unchanged[2];
	uint8_t input[FUZZ_CHANGES_MAX];

	LLVMFuzzerTestOneInput(unchanged, sizeof unchanged);
	for (int i = 0; i < RUNS; i++)
		LLVMFuzzerTestOneInput(input, fuzz_changes(input, some_offset));
	LLVMFuzzerTestOneInput(unchanged, sizeof unchanged);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fuzz segment");
	TCase *tests = tcase_create("short run");

	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, none_does_harm);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}

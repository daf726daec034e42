/* SPDX-License-Identifier: MIT */
/*
 * A short run of the fuzz target of rings: good input, and a few thousand random changes of it, the
 * same in every run.
 */
#include "tests/unit/fuzz_changes.h"

#include "core/rings/ring_layout.h"

enum { RINGS = 3000, STATES = 20000 };

/* Where a change is likely to matter: the header, the places of records, anywhere. */
static uint32_t some_offset(void)
{
	uint64_t number = scratch_random();

	switch (number % 4) {
	case 0:
		return number >> 8 & 0xff;
	case 1:
		return (uint32_t)offsetof(struct ring_header, next) + (number >> 8) % 8;
	case 2:
		return (uint32_t)(offsetof(struct ring_file, record) + (number >> 8) % (300 * 64));
	default:
		return number >> 8 & 0xffffff;
	}
}

START_TEST(no_ring_does_harm)
{
	static const uint8_t unchanged[] = {1, 0, 0};
	uint8_t input[1 + FUZZ_CHANGES_MAX] = {1};

	LLVMFuzzerTestOneInput(unchanged, sizeof unchanged);
	for (int i = 0; i < RINGS; i++)
		LLVMFuzzerTestOneInput(input, 1 + fuzz_changes(input + 1, some_offset));
	LLVMFuzzerTestOneInput(unchanged, sizeof unchanged);
}
END_TEST

START_TEST(no_state_does_harm)
{
	static const char text[] = "spillway ring reader 1\nproduced 5\ncompleted 2\nlost 1\n"
	                           "ring job.7-00000000000000ff.events 44\n"
	                           "ring fuzz.7-0000000000000063.events 300\nend\n";
	uint8_t input[sizeof text];

	for (int i = 0; i < STATES; i++) {
		input[0] = 0;
		memcpy(input + 1, text, sizeof text - 1);
		for (uint64_t changes = scratch_random() % 3; changes > 0; changes--)
			input[1 + scratch_random() % (sizeof text - 1)] =
			    "\n 0129-.xr\xff"[scratch_random() % 11];
		LLVMFuzzerTestOneInput(input, 1 + scratch_random() % sizeof text);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fuzz ring");
	TCase *tests = tcase_create("short run");

	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, no_ring_does_harm);
	tcase_add_test(tests, no_state_does_harm);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}

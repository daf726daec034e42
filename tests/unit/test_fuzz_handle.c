/* SPDX-License-Identifier: MIT */
/*
 * A short run of the fuzz target of handles: good text, and some hundred thousand random changes of
 * it, the same in every run.
 */
#include <stdint.h>
#include <string.h>

#include "core/registry/registry.h"
#include "suite.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* of tests/fuzz/fuzz_handle.c */

START_TEST(no_text_does_harm)
{
	static const char good[] = "/job:bert/process:4711/gpu:0/ctx1/allocation/17";
	static const char letters[] = "/:jobprcesgu0123456789x\n\xff";

	LLVMFuzzerTestOneInput((const uint8_t *)good, strlen(good));
	srand(1);
	for (int round = 0; round < 200000; round++) {
		char text[sizeof(good) + 8];
		strcpy(text, good);
		for (int edits = rand() % 4; edits >= 0; edits--) {
			size_t length = strlen(text), at = (size_t)rand() % (length + 1);
			char letter = letters[(size_t)rand() % (sizeof letters - 1)];
			switch (rand() % 3) {
			case 0:
				text[at] = at < length ? letter : '\0';
				break;
			case 1:
				memmove(text + at + 1, text + at, length - at + 1);
				text[at] = letter;
				break;
			default:
				if (at < length)
					memmove(text + at, text + at + 1, length - at);
			}
		}
		LLVMFuzzerTestOneInput((const uint8_t *)text, strlen(text));
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("fuzz handle");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, no_text_does_harm);
	return suite_run("fuzz handle", tests);
}

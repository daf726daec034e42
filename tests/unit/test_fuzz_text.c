/* SPDX-License-Identifier: MIT */
/*
 * A short run of the fuzz target of text: what is good of each kind, and random changes of it, the
 * same in every run.
 */
#include "tests/unit/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* of tests/fuzz/fuzz_text.c */

enum { RUNS = 8000, SIZE = 512 };

static const char *const good[3][3] = {
    {"[job]\nname = bert\nlabels = a=b\nnvml = no\nstatus_file = /a\n[gpu]\nmemory = "
     "8GiB\nshare = 50%\n"
     "[gpu GPU-5ac3]\nmemory_max = 90%\n[gpu 0]\nspill = vmm ; why\n",
     "[gpu 0000:3b:00.0]\nshare_window=1s\nhost_memory = unlimited\n# remark\n[ceiling]\nshare = "
     "30\n",
     "\xef\xbb\xbf[gpu]\r\nevict = yes\r\n  indented = 1\n"},
    {"SPILLWAY_MEMORY=4G\nSPILLWAY_SHARE_1=30\nSPILLWAY_JOB=x\n",
     "CUDA_DEVICE_MEMORY_LIMIT_0=1024m\nCUDA_DEVICE_SM_LIMIT=30\nGPU_CORE_UTILIZATION_POLICY="
     "force\n",
     "SPILLWAY_DISABLE=no\nSPILLWAY_LABELS=a=b,c=d\nSPILLWAY_STATUS_FILE=/a/b\nSPILLWAY_MEMRY=1\n"},
    {"1.5 GiB", "17179869183.99T", "0.000000000000000001Ki"},
};

START_TEST(none_does_harm)
{
	static const char bytes[] = "\n =[]0129.-%/:;#,\"\xff\t\rKkMGiBsgpujob_";
	uint8_t input[SIZE];

	for (int i = 0; i < RUNS; i++) {
		uint64_t kind = scratch_random() % 3;
		const char *text = good[kind][scratch_random() % 3];
		size_t length = strlen(text);

		input[0] = (uint8_t)kind;
		memcpy(input + 1, text, length + 1);
		for (uint64_t changes = scratch_random() % 5; changes > 0; changes--) {
			size_t at = 1 + scratch_random() % length;

			if (scratch_random() % 4 == 0 && length > 1) { /* one less */
				memmove(input + at, input + at + 1, length - at);
				length--;
			} else {
				input[at] = (uint8_t)bytes[scratch_random() % (sizeof bytes)];
			}
		}
		LLVMFuzzerTestOneInput(input, 1 + length);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fuzz text");
	TCase *tests = tcase_create("short run");

	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, none_does_harm);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}

/* SPDX-License-Identifier: MIT */
/*
 * Questions on runs of several mappings, as of an allocation of several chunks. May they be opened
 * and unmapped by one call, and how much does that save?
 */
#include "tests/gpu/probe.h"

#include "tests/clients/program.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUdeviceptr chunk_of(const struct range *range, unsigned i)
{
	return range->base + i * range->chunk;
}

/* One call for all chunks, then all of them again. */
static void ask_unmap(const char *question, const char *backings)
{
	CUmemAccessDesc access = range_access();
	struct range range;

	attempt_begin();
	range_make(&range, backings, small_chunk);
	ATTEMPT(cuMemUnmap(range.base, range.reserved));
	for (unsigned i = 0; i < range.count; i++)
		ATTEMPT(cuMemMap(chunk_of(&range, i), range.chunk, 0, range.handles[i], 0));
	ATTEMPT(cuMemSetAccess(range.base, range.reserved, &access, 1));
	ATTEMPT(cuMemsetD8(range.base, 1, range.reserved));
	ATTEMPT(cuCtxSynchronize());
	if (!attempt_failed(question))
		answer(question, "yes", "chunks %s, and mapped again", backings);
	range_free(&range);
}

static void ask_unmap_part(void)
{
	struct range range;
	unsigned char bytes[2] = {0};

	attempt_begin();
	range_make(&range, "dhdh", small_chunk);
	ATTEMPT(cuMemsetD8(range.base, 0x5a, range.reserved));
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuMemUnmap(chunk_of(&range, 1), 2 * small_chunk));
	ATTEMPT(cuMemcpyDtoH(&bytes[0], range.base, 1));
	ATTEMPT(cuMemcpyDtoH(&bytes[1], chunk_of(&range, 3), 1));
	if (!attempt_failed("unmap_middle_of_run"))
		answer("unmap_middle_of_run",
		       bytes[0] == 0x5a && bytes[1] == 0x5a ? "yes" : "wrong bytes",
		       "chunks 1 and 2 of dhdh by one call, the others as before");
	range_free(&range);
}

/* Rights for a run in which most chunks have them: what the mover would save calls by. */
static void ask_access_again(void)
{
	static const char question[] = "access_set_again_over_run";
	CUmemAccessDesc access = range_access();
	struct range range;
	unsigned char byte = 0;

	attempt_begin();
	range_make(&range, "dhdh", small_chunk);
	ATTEMPT(cuMemsetD8(range.base, 0x5a, range.reserved));
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuMemUnmap(chunk_of(&range, 1), small_chunk));
	ATTEMPT(cuMemMap(chunk_of(&range, 1), small_chunk, 0, range.handles[1], 0));
	ATTEMPT(cuMemSetAccess(range.base, range.reserved, &access, 1));
	ATTEMPT(cuMemcpyDtoH(&byte, chunk_of(&range, 1), 1));
	if (!attempt_failed(question))
		answer(question, byte == 0x5a ? "yes" : "wrong bytes",
		       "chunk 1 of dhdh was mapped anew, the others were open");
	range_free(&range);
}

/* The mover copies to a chunk where it is mapped meanwhile, then maps it in its place. */
static void ask_mapped_twice(const char *question, char backing)
{
	char backings[2] = {backing};
	CUmemAccessDesc access = range_access();
	CUdeviceptr second = 0;
	struct range range;
	unsigned char byte = 0;

	attempt_begin();
	range_make(&range, backings, small_chunk);
	ATTEMPT(cuMemAddressReserve(&second, small_chunk, 0, 0, 0));
	ATTEMPT(cuMemMap(second, small_chunk, 0, range.handles[0], 0));
	bool mapped = !attempt_failed(NULL);
	ATTEMPT(cuMemSetAccess(second, small_chunk, &access, 1));
	ATTEMPT(cuMemsetD8(second, 0x5a, small_chunk));
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuMemcpyDtoH(&byte, range.base, 1));
	if (!attempt_failed(question))
		answer(question, byte == 0x5a ? "yes" : "wrong bytes",
		       "written at one address, read at the other");
	if (mapped)
		gpu.cuMemUnmap(second, small_chunk);
	if (second)
		gpu.cuMemAddressFree(second, small_chunk);
	range_free(&range);
}

/* --- what one call for many saves --- */

enum { ROUNDS = 9 };

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void map_all(struct range *range)
{
	for (unsigned i = 0; i < MAX_CHUNKS; i++)
		ATTEMPT(cuMemMap(chunk_of(range, i), range->chunk, 0, range->handles[i], 0));
}

/* Opens and unmaps all chunks, `together` of them by one call; microseconds for each. */
static void open_and_unmap(const struct range *range, unsigned together, double *open,
                           double *unmap)
{
	CUmemAccessDesc access = range_access();
	double start = program_now_ms(), middle;

	for (unsigned i = 0; i < MAX_CHUNKS; i += together)
		ATTEMPT(cuMemSetAccess(chunk_of(range, i), together * range->chunk, &access, 1));
	middle = program_now_ms();
	for (unsigned i = 0; i < MAX_CHUNKS; i += together)
		ATTEMPT(cuMemUnmap(chunk_of(range, i), together * range->chunk));
	*open = (middle - start) * 1e3;
	*unmap = (program_now_ms() - middle) * 1e3;
}

static void ask_run_cost(const char *question, const char *backings)
{
	double open[2][ROUNDS], unmap[2][ROUNDS];
	struct range range;

	attempt_begin();
	range_make(&range, backings, small_chunk);
	ATTEMPT(cuMemUnmap(range.base, range.reserved));
	for (int round = 0; round < ROUNDS; round++) {
		map_all(&range);
		open_and_unmap(&range, 1, &open[0][round], &unmap[0][round]);
		map_all(&range);
		open_and_unmap(&range, MAX_CHUNKS, &open[1][round], &unmap[1][round]);
	}
	map_all(&range); /* for range_free() */
	if (!attempt_failed(question)) {
		char reply[128];

		for (int i = 0; i < 2; i++) {
			qsort(open[i], ROUNDS, sizeof(**open), ascending);
			qsort(unmap[i], ROUNDS, sizeof(**unmap), ascending);
		}
		snprintf(reply, sizeof(reply),
		         "set access %.1f, at once %.1f; unmap %.1f, at once %.1f us",
		         open[0][ROUNDS / 2], open[1][ROUNDS / 2], unmap[0][ROUNDS / 2],
		         unmap[1][ROUNDS / 2]);
		answer(question, reply, "medians of %d, chunks %s of 2 MiB", ROUNDS, backings);
	}
	range_free(&range);
}

/* --- arrays --- */

/* A copy between an array and a range, across the border of a device and a host chunk. */
static void ask_array(const char *question, bool to_array)
{
	enum { ELEMENTS = 1 << 16, ELEMENT = 16, BYTES = ELEMENTS * ELEMENT };
	CUDA_ARRAY_DESCRIPTOR shape = {
	    .Width = ELEMENTS, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 4};
	uint8_t *written = malloc(BYTES), *seen = calloc(1, BYTES);
	CUarray array = NULL;
	struct range range;
	CUdeviceptr across;

	if (!written || !seen)
		abort(); /* it is said that the process died */
	for (size_t i = 0; i < BYTES; i++)
		written[i] = (uint8_t)(i * 7 + i / 4096);
	attempt_begin();
	range_make(&range, "dh", small_chunk);
	across = range.base + small_chunk - BYTES / 2;
	ATTEMPT(cuArrayCreate(&array, &shape));
	if (to_array) {
		ATTEMPT(cuMemcpyHtoD(across, written, BYTES / 2));
		ATTEMPT(cuMemcpyHtoD(across + BYTES / 2, written + BYTES / 2, BYTES / 2));
		ATTEMPT(cuMemcpyDtoA(array, 0, across, BYTES));
		ATTEMPT(cuMemcpyAtoH(seen, array, 0, BYTES));
	} else {
		ATTEMPT(cuMemcpyHtoA(array, 0, written, BYTES));
		ATTEMPT(cuMemcpyAtoD(across, array, 0, BYTES));
		ATTEMPT(cuMemcpyDtoH(seen, across, BYTES / 2));
		ATTEMPT(cuMemcpyDtoH(seen + BYTES / 2, across + BYTES / 2, BYTES / 2));
	}
	if (!attempt_failed(question))
		answer(question, memcmp(written, seen, BYTES) ? "wrong bytes" : "yes", "%d bytes",
		       BYTES);
	if (array)
		gpu.cuArrayDestroy(array);
	range_free(&range);
	free(written);
	free(seen);
}

void ask_runs(void)
{
	ASK("unmap_once_over_device_chunks", ask_unmap("unmap_once_over_device_chunks", "dddd"));
	ASK("unmap_once_over_mixed_chunks", ask_unmap("unmap_once_over_mixed_chunks", "dhdh"));
	ASK("unmap_middle_of_run", ask_unmap_part());
	ASK("access_set_again_over_run", ask_access_again());
	ASK("device_chunk_mapped_twice", ask_mapped_twice("device_chunk_mapped_twice", 'd'));
	ASK("host_chunk_mapped_twice", ask_mapped_twice("host_chunk_mapped_twice", 'h'));
	ASK("cost_of_8_device_chunks", ask_run_cost("cost_of_8_device_chunks", "dddddddd"));
	ASK("cost_of_8_mixed_chunks", ask_run_cost("cost_of_8_mixed_chunks", "dhdhdhdh"));
	ASK("copy_dtoa", ask_array("copy_dtoa", true));
	ASK("copy_atod", ask_array("copy_atod", false));
}

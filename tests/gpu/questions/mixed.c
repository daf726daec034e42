/* SPDX-License-Identifier: MIT */
/* Copies and fills over the border of a chunk on the device and one on the host, in both orders. */
#include "tests/gpu/questions/question.h"

#include <stdint.h>
#include <string.h>

enum { BYTES = 128 << 10, VALUE = 0x5a };
enum form { DTOH, HTOD, DTOD_FROM, DTOD_TO, UNIFIED, FILL, SYNC_DTOH, SYNC_HTOD };

static CUresult make_call(enum form form, CUdeviceptr at, CUdeviceptr other, void *host)
{
	switch (form) {
	case DTOH:
		return gpu.cuMemcpyDtoHAsync(host, at, BYTES, stream);
	case HTOD:
		return gpu.cuMemcpyHtoDAsync(at, host, BYTES, stream);
	case DTOD_FROM:
		return gpu.cuMemcpyDtoDAsync(other, at, BYTES, stream);
	case DTOD_TO:
		return gpu.cuMemcpyDtoDAsync(at, other, BYTES, stream);
	case UNIFIED:
		return gpu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, at, BYTES, stream);
	case FILL:
		return gpu.cuMemsetD32Async(at, VALUE * 0x1010101u, BYTES / 4, stream);
	case SYNC_DTOH:
		return gpu.cuMemcpyDtoH(host, at, BYTES);
	case SYNC_HTOD:
		return gpu.cuMemcpyHtoD(at, host, BYTES);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* The bytes at an address of the device, half by half, which is not in question. */
static bool arrived(CUdeviceptr at, uint8_t *scratch)
{
	ATTEMPT(cuMemcpyDtoH(scratch, at, BYTES / 2));
	ATTEMPT(cuMemcpyDtoH(scratch + BYTES / 2, at + BYTES / 2, BYTES / 2));
	for (size_t i = 0; i < BYTES; i++)
		if (scratch[i] != VALUE)
			return false;
	return true;
}

static void ask_copy(const struct question *q)
{
	enum form form = (enum form)q->form;
	bool reads = form == DTOH || form == UNIFIED || form == SYNC_DTOH || form == DTOD_FROM;
	struct range range, other;
	static uint8_t pageable[BYTES], scratch[BYTES];
	uint8_t *host = pageable;

	range_make(&range, q->kinds, small_chunk);
	range_make(&other, "d", small_chunk);
	CUdeviceptr at = range.base + small_chunk - BYTES / 2;
	if (q->pinned)
		ATTEMPT(cuMemHostAlloc((void **)&host, BYTES, 0));
	/* What the copy is to bring is VALUE, what is there before is not. */
	for (unsigned i = 0; i < 2; i++)
		ATTEMPT(cuMemsetD8(range.base + i * small_chunk, reads ? VALUE : 1, small_chunk));
	ATTEMPT(cuMemsetD8(other.base, reads ? 1 : VALUE, small_chunk));
	ATTEMPT(cuCtxSynchronize());
	if (not_asked(q))
		return;
	memset(host, reads ? 1 : VALUE, BYTES);
	CUresult called = make_call(form, at, other.base, host);
	CUresult ended = gpu.cuStreamSynchronize(stream);
	bool right = false;
	if (called == CUDA_SUCCESS && ended == CUDA_SUCCESS) {
		if (form == DTOD_FROM)
			right = arrived(other.base, scratch);
		else if (!reads)
			right = arrived(at, scratch);
		else
			right = host[0] == VALUE && memcmp(host, host + 1, BYTES - 1) == 0;
	}
	answer(q->name,
	       called != CUDA_SUCCESS || ended != CUDA_SUCCESS ? "no"
	       : right                                         ? "yes"
	                                                       : "wrong bytes",
	       "%s, then %s", gpu_error_name(called), gpu_error_name(ended));
}

#define ASKED(given, what, chunks, call, with_pinned)                                             \
	{                                                                                         \
		.name = given, .risk = "3",                                                       \
		.asks = "Does " what " work over the border of " chunks " (d: device, h: host)?", \
		.counted_on = "yes", .then = "an allocation may lie on both sides (`mixed`)",     \
		.otherwise = "judge `mixed` by every form, in a child; where one fails, "         \
		             "allocations lie whole on one side",                                 \
		.ask = ask_copy, .kinds = chunks, .form = call, .pinned = with_pinned             \
	}

const struct question mixed_questions[] = {
    ASKED("mixed_dh_dtoh_pageable", "a copy to pageable memory", "dh", DTOH, false),
    ASKED("mixed_hd_dtoh_pageable", "a copy to pageable memory", "hd", DTOH, false),
    ASKED("mixed_dh_dtoh_pinned", "a copy to pinned memory", "dh", DTOH, true),
    ASKED("mixed_hd_dtoh_pinned", "a copy to pinned memory", "hd", DTOH, true),
    ASKED("mixed_dh_htod_pageable", "a copy of pageable memory", "dh", HTOD, false),
    ASKED("mixed_hd_htod_pageable", "a copy of pageable memory", "hd", HTOD, false),
    ASKED("mixed_dh_htod_pinned", "a copy of pinned memory", "dh", HTOD, true),
    ASKED("mixed_hd_htod_pinned", "a copy of pinned memory", "hd", HTOD, true),
    ASKED("mixed_dh_dtod_from", "a copy to device memory", "dh", DTOD_FROM, true),
    ASKED("mixed_hd_dtod_from", "a copy to device memory", "hd", DTOD_FROM, true),
    ASKED("mixed_dh_dtod_to", "a copy of device memory", "dh", DTOD_TO, true),
    ASKED("mixed_hd_dtod_to", "a copy of device memory", "hd", DTOD_TO, true),
    ASKED("mixed_dh_unified", "cuMemcpyAsync to pinned memory", "dh", UNIFIED, true),
    ASKED("mixed_hd_unified", "cuMemcpyAsync to pinned memory", "hd", UNIFIED, true),
    ASKED("mixed_dh_fill", "a fill", "dh", FILL, true),
    ASKED("mixed_hd_fill", "a fill", "hd", FILL, true),
    ASKED("mixed_hd_sync_dtoh", "a plain copy to pageable memory", "hd", SYNC_DTOH, false),
    ASKED("mixed_hd_sync_htod", "a plain copy of pageable memory", "hd", SYNC_HTOD, false),
    {0},
};

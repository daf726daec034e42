/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 that has every entry point of the table and writes down how it was called. The
 * shim's own queries are answered. The rest answers recorder.answer.
 */
#include "tests/unit/recorder.h"

#include <pthread.h>
#include <string.h>

typedef uint64_t word;

__attribute__((visibility("default"))) struct recorder recorder;

static CUresult give(word out, uint64_t value, size_t size)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy((void *)out, &value, size);
	return CUDA_SUCCESS;
}

static CUresult answer(enum entry entry, const word *w)
{
	switch (entry) {
	case ENTRY_cuInit:
	case ENTRY_cuCtxSetCurrent:
	case ENTRY_cuCtxPushCurrent_v2:
		return CUDA_SUCCESS;
	case ENTRY_cuDriverGetVersion:
		return give(w[0], 13000, sizeof(int));
	case ENTRY_cuDeviceGetCount:
		return give(w[0], 1, sizeof(int));
	case ENTRY_cuDeviceGet:
	case ENTRY_cuCtxGetDevice:
		return give(w[0], 0, sizeof(CUdevice));
	case ENTRY_cuDeviceGetAttribute:
	case ENTRY_cuStreamIsCapturing:
		return give(w[0], 0, sizeof(int));
	case ENTRY_cuDeviceGetName:
	case ENTRY_cuDeviceGetPCIBusId:
		return give(w[0], '0', 2);
	case ENTRY_cuDeviceGetUuid:
	case ENTRY_cuDeviceGetUuid_v2:
		return give(w[0], 1, sizeof(uint64_t));
	case ENTRY_cuDeviceTotalMem_v2:
		return give(w[0], (uint64_t)1 << 34, sizeof(size_t));
	case ENTRY_cuMemGetInfo_v2:
		give(w[1], (uint64_t)1 << 34, sizeof(size_t));
		return give(w[0], (uint64_t)1 << 34, sizeof(size_t));
	case ENTRY_cuCtxGetCurrent:
		return give(w[0], (uintptr_t)&recorder, sizeof(CUcontext));
	default:
		return (CUresult)atomic_load(&recorder.answer);
	}
}

static CUresult called(enum entry entry, const word *words)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	memcpy(recorder.row[entry].words, words, sizeof(recorder.row[entry].words));
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&recorder.row[entry].calls, 1);
	return answer(entry, words);
}

#include "tests/unit/every_entry.h"

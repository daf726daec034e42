/* SPDX-License-Identifier: MIT */
/*
 * Stream memory operations: a stream writes a word, or waits until a word is as wanted. A wait that
 * no write ends holds the stream for ever, as on hardware, unless the context dies under it.
 */
#include <stdlib.h>
#include <time.h>

#include "tests/softgpu/copy.h"
#include "tests/softgpu/memory.h"

#define MOST_OPERATIONS 255
#define WAIT_LEAST_NS   20000
#define WAIT_MOST_NS    1000000

struct operation {
	enum { WAIT, WRITE, NOTHING } what;
	bool wide; /* 64 bits */
	unsigned int flags;
	uint64_t address, value;
};

struct operations {
	struct work work;
	struct context *context;
	unsigned int count;
	struct operation list[];
};

/* Reads or writes the word; false when it may not be touched. */
static bool access_word(const struct operation *op, uint64_t *value)
{
	uint64_t run;
	bool write = op->what == WRITE;
	pthread_rwlock_rdlock(&memory_lock);
	bool there = window_holds(op->address) || range_find(op->address);
	void *word = there ? side_bytes(op->address, write, &run) : NULL;
	if (word && write && op->wide)
		__atomic_store_n((uint64_t *)word, op->value, __ATOMIC_SEQ_CST);
	else if (word && write)
		__atomic_store_n((uint32_t *)word, (uint32_t)op->value, __ATOMIC_SEQ_CST);
	else if (word && op->wide)
		*value = __atomic_load_n((uint64_t *)word, __ATOMIC_SEQ_CST);
	else if (word)
		*value = __atomic_load_n((uint32_t *)word, __ATOMIC_SEQ_CST);
	pthread_rwlock_unlock(&memory_lock);
	if (!word)
		say("a stream memory operation at %#llx touched memory that is not accessible",
		    (unsigned long long)op->address);
	return word != NULL;
}

static bool is_as_wanted(const struct operation *op, uint64_t value)
{
	uint64_t mask = op->wide ? UINT64_MAX : UINT32_MAX;
	switch (op->flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic */
		return op->wide ? (int64_t)(value - op->value) >= 0
		                : (int32_t)(uint32_t)(value - op->value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return value == (op->value & mask);
	case CU_STREAM_WAIT_VALUE_AND:
		return (value & op->value & mask) != 0;
	default:
		return (~(value | op->value) & mask) != 0;
	}
}

static bool is_over(const struct context *context)
{
	pthread_mutex_lock(&driver_lock);
	bool over = !context->alive || context->error != CUDA_SUCCESS;
	pthread_mutex_unlock(&driver_lock);
	return over;
}

static CUresult wait_for_value(const struct operation *op, const struct context *context)
{
	long pause = WAIT_LEAST_NS;
	for (;;) {
		uint64_t value;
		if (!access_word(op, &value))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (is_as_wanted(op, value) || is_over(context))
			return CUDA_SUCCESS;
		struct timespec time = {.tv_nsec = pause};
		nanosleep(&time, NULL);
		pause = 2 * pause < WAIT_MOST_NS ? 2 * pause : WAIT_MOST_NS;
	}
}

static CUresult run_operations(struct work *work, CUresult broken)
{
	(void)broken;
	const struct operations *operations = (const struct operations *)work;
	CUresult result = CUDA_SUCCESS;
	for (unsigned int i = 0; i < operations->count && result == CUDA_SUCCESS; i++) {
		const struct operation *op = &operations->list[i];
		uint64_t unused;
		if (op->what == WAIT)
			result = wait_for_value(op, operations->context);
		else if (op->what == WRITE && !access_word(op, &unused))
			result = CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	return result;
}

/* The first interface (`old`) has attributes of its own, and no barriers. */
static CUresult check(const struct operation *op, bool old)
{
	if (op->wide && !device_attribute(old ? CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1
	                                      : CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (op->what == WAIT) {
		if (op->flags & ~(3U | CU_STREAM_WAIT_VALUE_FLUSH))
			return CUDA_ERROR_INVALID_VALUE;
		if (op->flags & CU_STREAM_WAIT_VALUE_FLUSH &&
		    !device_attribute(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES))
			return CUDA_ERROR_NOT_SUPPORTED;
		if ((op->flags & 3) == CU_STREAM_WAIT_VALUE_NOR &&
		    !device_attribute(old ? CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1
		                          : CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR))
			return CUDA_ERROR_NOT_SUPPORTED;
	} else if (op->flags & ~(old ? (unsigned int)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER : 0)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	uint64_t size = op->wide ? 8 : 4;
	struct copy_side side = {.address = op->address};
	if (op->address % size || classify(&side, size) != CUDA_SUCCESS ||
	    side.kind == SIDE_PAGEABLE || side.kind == SIDE_MANAGED)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* One entry of a batch. */
static CUresult read_entry(const CUstreamBatchMemOpParams *entry, bool old, struct operation *op)
{
	*op = (struct operation){.what = NOTHING};
	switch ((int)entry->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		op->what = WAIT;
		op->wide = entry->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
		op->flags = entry->waitValue.flags;
		op->address = entry->waitValue.address;
		op->value = op->wide ? entry->waitValue.value64 : entry->waitValue.value;
		return check(op, old);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		op->what = WRITE;
		op->wide = entry->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
		op->flags = entry->writeValue.flags;
		op->address = entry->writeValue.address;
		op->value = op->wide ? entry->writeValue.value64 : entry->writeValue.value;
		return check(op, old);
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		if (!device_attribute(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES))
			return CUDA_ERROR_NOT_SUPPORTED;
		return entry->flushRemoteWrites.flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_BARRIER:
		if (old || entry->memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU)
			return CUDA_ERROR_INVALID_VALUE;
		return CUDA_SUCCESS; /* all work of a stream is in order here */
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult batch(const char *call, CUstream handle, unsigned int count,
                      const CUstreamBatchMemOpParams *entries, unsigned int flags, bool old)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (old && !device_attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1))
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	struct stream *stream = stream_find(context, handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (count == 0 || count > MOST_OPERATIONS || !entries || flags != 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct operations *operations =
	    calloc(1, sizeof(*operations) + count * sizeof(struct operation));
	if (!operations)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	operations->work.run = run_operations;
	operations->context = stream->context;
	operations->count = count;
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = read_entry(&entries[i], old, &operations->list[i]);
	if (result != CUDA_SUCCESS) {
		free(operations);
		return leave(result);
	}
	return leave(stream_submit(stream, &operations->work));
}

/* Each call in both interfaces; the single ones are batches of one. */
#define BATCH(name, old)                                                                          \
	static CUresult name##_on(const char *call, CUstream stream, unsigned int count,          \
	                          const CUstreamBatchMemOpParams *entries, unsigned int flags)    \
	{                                                                                         \
		return batch(call, stream, count, entries, flags, old);                           \
	}                                                                                         \
	EXPORT_ON_STREAM(name,                                                                    \
	                 (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *entries, \
	                  unsigned int flags),                                                    \
	                 stream, count, entries, flags)

#define SINGLE(name, type, what, member, type_of_operation, old)                                   \
	static CUresult name##_on(const char *call, CUstream stream, CUdeviceptr address,          \
	                          type value, unsigned int flags)                                  \
	{                                                                                          \
		CUstreamBatchMemOpParams entry = {                                                 \
		    .what = {.operation = type_of_operation, .address = address, .flags = flags}}; \
		entry.what.member = value;                                                         \
		return batch(call, stream, 1, &entry, 0, old);                                     \
	}                                                                                          \
	EXPORT_ON_STREAM(name,                                                                     \
	                 (CUstream stream, CUdeviceptr address, type value, unsigned int flags),   \
	                 stream, address, value, flags)

#define WAIT32(name, old) \
	SINGLE(name, cuuint32_t, waitValue, value, CU_STREAM_MEM_OP_WAIT_VALUE_32, old)
#define WAIT64(name, old) \
	SINGLE(name, cuuint64_t, waitValue, value64, CU_STREAM_MEM_OP_WAIT_VALUE_64, old)
#define WRITE32(name, old) \
	SINGLE(name, cuuint32_t, writeValue, value, CU_STREAM_MEM_OP_WRITE_VALUE_32, old)
#define WRITE64(name, old) \
	SINGLE(name, cuuint64_t, writeValue, value64, CU_STREAM_MEM_OP_WRITE_VALUE_64, old)

WAIT32(cuStreamWaitValue32, true)
WAIT64(cuStreamWaitValue64, true)
WRITE32(cuStreamWriteValue32, true)
WRITE64(cuStreamWriteValue64, true)
BATCH(cuStreamBatchMemOp, true)
WAIT32(cuStreamWaitValue32_v2, false)
WAIT64(cuStreamWaitValue64_v2, false)
WRITE32(cuStreamWriteValue32_v2, false)
WRITE64(cuStreamWriteValue64_v2, false)
BATCH(cuStreamBatchMemOp_v2, false)

/*
 * Stages of asynchronous copies: whose serve whom, and that nobody asks for the work of a context
 * that another thread is about to destroy. The test is the driver and its contexts.
 */
#include <check.h>

#include "core/budget/device.h"
#include "core/cuda/capture.h"
#include "core/cuda/events.h"
#include "core/cuda/mapping.h"
#include "core/memory/arena/reach.h"
#include "core/memory/arena/spare.h"
#include "core/memory/copy/stage.h"
#include "suite.h"

#define ONE     ((CUcontext)0x100)
#define OTHER   ((CUcontext)0x200)
#define STREAM  ((CUstream)0x300)
#define ANOTHER ((CUstream)0x308)

struct driver driver;

static struct device gpu;
static struct {
	CUcontext leaving, pushed;
	CUresult passed; /* what an event answers */
	int made, asked;
} world;

/* --- what stages are made of --- */

int device_charge(struct device *device, uint64_t bytes)
{
	(void)device, (void)bytes;
	return 0;
}

int device_charge_taken(struct device *device, uint64_t bytes)
{
	(void)device, (void)bytes;
	return 0;
}

void device_uncharge(struct device *device, enum segment_side side, uint64_t bytes)
{
	(void)device, (void)side, (void)bytes;
}

CUresult spare_create(struct device *device, struct chunk *chunk)
{
	(void)device;
	chunk->handle = 1;
	return CUDA_SUCCESS;
}

void chunk_release(const struct chunk *chunk)
{
	(void)chunk;
}

CUresult mapping_make(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle)
{
	(void)address, (void)size, (void)handle;
	return CUDA_SUCCESS;
}

CUresult mapping_allow(CUdeviceptr address, size_t size, const CUmemAccessDesc *rights,
                       size_t count)
{
	(void)address, (void)size, (void)rights, (void)count;
	return CUDA_SUCCESS;
}

CUresult mapping_remove(CUdeviceptr address, size_t size)
{
	(void)address, (void)size;
	return CUDA_SUCCESS;
}

CUmemAccessDesc reach_right(CUdevice device)
{
	(void)device;
	return (CUmemAccessDesc){0};
}

/* An event is known by its context. */
CUevent events_take(CUcontext context)
{
	return (CUevent)context;
}

void events_give(CUcontext context, CUevent event)
{
	(void)context, (void)event;
}

CUresult context_push(CUcontext context)
{
	if (context == world.leaving)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	world.pushed = context;
	return CUDA_SUCCESS;
}

void context_pop(CUcontext context)
{
	ck_assert_ptr_eq(world.pushed, context);
	world.pushed = NULL;
}

static CUresult reserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr fixed,
                        unsigned long long flags)
{
	(void)alignment, (void)fixed, (void)flags;
	*address = size * (CUdeviceptr)++world.made;
	return CUDA_SUCCESS;
}

static CUresult release(CUdeviceptr address, size_t size)
{
	(void)address, (void)size;
	return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
	(void)event, (void)stream;
	return CUDA_SUCCESS;
}

/* Asked is only what is sure to be there. */
static CUresult query(CUevent event)
{
	ck_assert_ptr_eq(event, (CUevent)world.pushed);
	world.asked++;
	return world.passed;
}

static void set_up(void)
{
	driver.cuMemAddressReserve = reserve;
	driver.cuMemAddressFree = release;
	driver.cuEventRecord = record;
	driver.cuEventQuery = query;
	world.passed = CUDA_ERROR_NOT_READY;
}

/* Takes a stage for work of a context's stream, which is queued. Returns where it is. */
static CUdeviceptr use(CUcontext context, CUstream stream)
{
	const struct context of = {.handle = context, .device = &gpu};
	struct stage *stage = stage_take(&of, stream, false);
	CUdeviceptr address;

	ck_assert_ptr_nonnull(stage);
	address = stage_address(stage);
	stage_give(stage);
	return address;
}

START_TEST(a_stream_keeps_its_stage)
{
	CUdeviceptr first = use(ONE, STREAM);

	ck_assert_uint_eq(use(ONE, STREAM), first);
	ck_assert_int_eq(world.asked, 0);
	ck_assert_uint_ne(use(OTHER, STREAM), first);
	ck_assert(!stage_trim(&gpu));
	world.passed = CUDA_SUCCESS;
	ck_assert_uint_eq(use(OTHER, ANOTHER), first);
	ck_assert_int_eq(world.made, 2);
	ck_assert(stage_trim(&gpu));
}
END_TEST

START_TEST(who_leaves_is_not_asked)
{
	CUdeviceptr first = use(ONE, STREAM);

	world.passed = CUDA_SUCCESS;
	world.leaving = ONE;
	ck_assert(!stage_trim(&gpu));
	ck_assert_uint_ne(use(OTHER, STREAM), first);
	ck_assert_int_eq(world.asked, 0);
	/* Once it has gone nothing of it runs. */
	stage_forget_context(ONE);
	ck_assert(stage_trim(&gpu));
}
END_TEST

/* A capture that is about to begin would be broken. */
START_TEST(nobody_asks_beside_a_capture)
{
	use(ONE, STREAM);
	world.passed = CUDA_SUCCESS;
	capture_announce();
	ck_assert(!stage_trim(&gpu));
	ck_assert_int_eq(world.asked, 0);
	capture_announced();
	ck_assert(stage_trim(&gpu));
	ck_assert_int_eq(world.asked, 1);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("stage");

	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_add_test(tests, a_stream_keeps_its_stage);
	tcase_add_test(tests, who_leaves_is_not_asked);
	tcase_add_test(tests, nobody_asks_beside_a_capture);
	return suite_run("stage", tests);
}

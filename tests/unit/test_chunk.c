/* SPDX-License-Identifier: MIT */
/*
 * Chunks on the host: which NUMA nodes are asked, in which order, and when memory without a node
 * serves.
 */
#include <check.h>
#include <stdlib.h>

#include "core/cuda/chunk.h"
#include "core/ledger/statistics.h"
#include "suite.h"

enum { NODES = 4, HOST = -1 };

static CUresult on_node[NODES], on_host;
static int asked[16], asked_count;

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
                       const CUmemAllocationProp *prop, unsigned long long flags)
{
	bool is_node = prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;

	ck_assert(size == 2 << 20 && flags == 0);
	asked[asked_count++] = is_node ? prop->location.id : HOST;
	*handle = 1;
	return is_node ? on_node[prop->location.id] : on_host;
}

struct driver driver = {.cuMemCreate = create};

static struct counters counters;
static _Atomic uint32_t numa_error;
static const int nodes[] = {2, 0, 3};

static CUresult make(bool avoids_numa)
{
	const struct chunk_source source = {.host_nodes = nodes,
	                                    .host_node_count = 3,
	                                    .avoids_numa = avoids_numa,
	                                    .numa_error = &numa_error,
	                                    .counters = &counters};
	struct chunk chunk = {.size = 2 << 20, .tier = SEGMENT_ON_HOST};

	asked_count = 0;
	return chunk_make(&source, &chunk);
}

static void set_up(void)
{
	for (int i = 0; i < NODES; i++)
		on_node[i] = CUDA_SUCCESS;
	on_host = CUDA_SUCCESS;
	atomic_store(&numa_error, 0);
}

START_TEST(the_first_node_with_room)
{
	ck_assert_int_eq(make(false), CUDA_SUCCESS);
	ck_assert_int_eq(asked_count, 1);
	ck_assert_int_eq(asked[0], 2);
	on_node[2] = on_node[0] = CUDA_ERROR_OUT_OF_MEMORY;
	ck_assert_int_eq(make(false), CUDA_SUCCESS);
	ck_assert_int_eq(asked_count, 3);
	ck_assert(asked[1] == 0 && asked[2] == 3);
	/* It has room again: nothing is remembered of that. */
	on_node[2] = CUDA_SUCCESS;
	ck_assert_int_eq(make(false), CUDA_SUCCESS);
	ck_assert_int_eq(asked_count, 1);
}
END_TEST

START_TEST(no_node_has_room)
{
	on_node[2] = on_node[0] = on_node[3] = CUDA_ERROR_OUT_OF_MEMORY;
	ck_assert_int_eq(make(false), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(asked_count, 3);
}
END_TEST

/* A node that is refused when a nearer one is full says nothing of that one. */
START_TEST(another_node_is_refused)
{
	on_node[2] = CUDA_ERROR_OUT_OF_MEMORY;
	on_node[0] = CUDA_ERROR_NOT_SUPPORTED;
	ck_assert_int_eq(make(false), CUDA_SUCCESS);
	ck_assert_int_eq(asked_count, 3);
	ck_assert_int_eq(asked[2], 3);
	on_node[3] = CUDA_ERROR_INVALID_DEVICE;
	ck_assert_int_eq(make(false), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(asked_count, 3);
	on_node[2] = CUDA_SUCCESS;
	ck_assert_int_eq(make(false), CUDA_SUCCESS);
	ck_assert(asked_count == 1 && asked[0] == 2);
}
END_TEST

START_TEST(nodes_are_refused)
{
	on_node[2] = CUDA_ERROR_NOT_PERMITTED;
	ck_assert_int_eq(make(false), CUDA_SUCCESS);
	ck_assert(asked_count == 2 && asked[0] == 2 && asked[1] == HOST);
	/* That will not be otherwise. */
	ck_assert_int_eq(make(false), CUDA_SUCCESS);
	ck_assert(asked_count == 1 && asked[0] == HOST);
}
END_TEST

START_TEST(nodes_are_avoided)
{
	ck_assert_int_eq(make(true), CUDA_SUCCESS);
	ck_assert(asked_count == 1 && asked[0] == HOST);
	on_host = CUDA_ERROR_NOT_SUPPORTED;
	ck_assert_int_eq(make(true), CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_int_eq(asked_count, 1);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("host");

	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_add_test(tests, the_first_node_with_room);
	tcase_add_test(tests, no_node_has_room);
	tcase_add_test(tests, another_node_is_refused);
	tcase_add_test(tests, nodes_are_refused);
	tcase_add_test(tests, nodes_are_avoided);
	return suite_run("chunk", tests);
}

/* SPDX-License-Identifier: MIT */
/* The shim's hooks over the handing-out driver. */
#include "tests/unit/tracking.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc/allocate.h"
#include "tests/unit/call.h"
#include "tests/unit/test_driver.h"

struct giver *giver;
int failures;
_Atomic bool was_exercised[ENTRY_COUNT];

const char *const row_name[ENTRY_COUNT] = {
#define FUNCTION(symbol, class, action) [ENTRY_##symbol] = #symbol,
#define OBJECT(symbol, bytes)
#include "shim/entry_points.h"
#undef FUNCTION
#undef OBJECT
};

const char *const row_action[ENTRY_COUNT] = {
#define FUNCTION(symbol, class, action) [ENTRY_##symbol] = #action,
#define OBJECT(symbol, bytes)
#include "shim/entry_points.h"
#undef FUNCTION
#undef OBJECT
};

const char *const row_parameters[ENTRY_COUNT] = {
#define SIGNATURE(symbol, letters) [ENTRY_##symbol] = letters,
#include "tests/unit/signatures.h"
#undef SIGNATURE
};

bool open_driver(void)
{
	giver = test_driver_open("giver", "tracking");
	if (!giver)
		return false;
	for (size_t i = 0; i < line_count; i++) {
		giver->row[lines[i].create].out =
		    (signed char)(lines[i].flags & GIVEN ? 0 : lines[i].at + 1);
		giver->row[lines[i].create].size = (signed char)lines[i].out_size;
	}
	shim_attach(NULL, &shim_trampolines);
	shim_inside[1].size = 0; /* this program's code and the shim's are one */
	return true;
}

/*
 * Small allocations are the driver's own here, one call each: each address that it hands out is
 * looked for in the books. Blocks of slabs are judged by test_slab and e2e/test_small.sh.
 */
void begin_job(void)
{
	CHECK(CALL(cuInit, {0, 0}) == CUDA_SUCCESS && job_is_active(), "the job did not begin");
	vmem_share_small();
}

CUresult call_row(enum entry entry, const struct argument *arguments, size_t count)
{
	struct call call;
	CUresult result = CUDA_ERROR_UNKNOWN;

	if (!row_parameters[entry] || !lay_out(&call, row_parameters[entry])) {
		FAIL("%s: signatures.h does not have it", row_name[entry]);
		return result;
	}
	for (size_t i = 0; i < count; i++)
		call.words[arguments[i].at] = arguments[i].value;
	result = make(shim_target[entry], call.words);
	free(call.buffers);
	return result;
}

struct counting {
	const char *type;
	char name[REGISTRY_NAME_MAX];
	size_t count;
	uint64_t born;
};

static void count_one(void *cookie, const struct registry_entry *entry)
{
	struct counting *c = cookie;

	if (c->type && strcmp(entry->resource->type->name, c->type) != 0)
		return;
	c->count++;
	if (strcmp(entry->name, c->name) == 0)
		c->born = entry->resource->born_ns;
}

static struct counting count(const char *type, uint64_t object)
{
	struct counting c = {.type = type};

	snprintf(c.name, sizeof(c.name), "%016" PRIx64, object);
	for (int i = 0; i < job_devices()->count; i++)
		registry_walk(job_devices()->device[i].registry, count_one, &c);
	return c;
}

size_t books(const char *type)
{
	return count(type, 0).count;
}

uint64_t in_books(const char *type, uint64_t object)
{
	return count(type, object).born;
}

uint64_t new_handle(void)
{
	return atomic_fetch_add(&giver->next, 0x100);
}

CUcontext new_context(void)
{
	CUcontext context = NULL;

	CHECK(CALL(cuCtxCreate_v2, {0, WORD(&context)}, {2, 0}) == CUDA_SUCCESS && context,
	      "no context");
	return context;
}

/* SPDX-License-Identifier: MIT */
/*
 * A million objects of all types, made and ended by eight threads, each in a context of its own.
 * Afterwards the books are as before, and the heap is no larger than after the first tenth.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/call.h"
#include "tests/unit/tracking.h"

/* A sanitizer is slow; what leaks under it the address sanitizer says. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { OBJECTS = 100000 };
#else
enum { OBJECTS = 1000000 };
#endif
enum { THREADS = 8, LINES_MAX = 128, HEAP_GROWTH = 64 << 10 };

#define THROUGH(symbol) ((__typeof__(&(symbol)))shim_target[ENTRY_##symbol])

static const CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
static _Atomic long mistakes;

/* One thread's calls, laid out once. */
struct worker {
	pthread_t thread;
	long objects;
	struct call making[LINES_MAX];
	uint64_t made[LINES_MAX];
};

static void lay_out_lines(struct worker *w)
{
	for (size_t i = 0; i < line_count; i++) {
		const struct line *l = &lines[i];
		struct call *call = &w->making[i];

		lay_out(call, row_parameters[l->create]);
		for (size_t j = 0; j < 2; j++) {
			if (l->with[j].at)
				call->words[l->with[j].at] = l->with[j].value;
		}
		if (l->with[0].at == 0 && l->flags & GIVEN && l->at == 1)
			call->words[0] = 0; /* a device */
		if (l->place_at)
			memcpy((char *)call->words[l->place_at - 1] + l->place, &place,
			       sizeof(place));
	}
}

static uint64_t make_line(struct worker *w, size_t i)
{
	const struct line *l = &lines[i];
	struct call *call = &w->making[i];
	uint64_t out = 0, owner = l->owner ? w->made[line_of(l->owner) - lines] : 0;

	if (l->owner)
		call->words[l->owner_at] = owner;
	if (l->flags & GIVEN)
		out = l->owner ? owner : new_handle();
	call->words[l->at] = l->flags & GIVEN ? out : WORD(&out);
	mistakes += make(shim_target[l->create], call->words) != CUDA_SUCCESS || !out;
	w->objects--;
	return out;
}

static void end_line(const struct line *l, uint64_t object, unsigned int round)
{
	uint64_t words[CALL_WORDS] = {object};
	int ends = 0;

	while (ends < ENDS && l->end[ends])
		ends++;
	if (ends) /* else it goes with its owner */
		mistakes +=
		    make(shim_target[l->end[round % (unsigned int)ends]], words) != CUDA_SUCCESS;
}

/* All lines' objects live at once, but for contexts, which would become current. */
static void one_round(struct worker *w, unsigned int round)
{
	for (size_t i = 0; i < line_count; i++) {
		w->made[i] = make_line(w, i);
		if (strcmp(lines[i].type, "context") == 0)
			end_line(&lines[i], w->made[i], round);
	}
	for (size_t i = line_count; i-- > 0;) {
		if (strcmp(lines[i].type, "context") != 0)
			end_line(&lines[i], w->made[i], round);
	}
}

static void CUDA_CB nothing(void *cookie)
{
	(void)cookie;
}

static void one_user_object(void)
{
	CUuserObject object = NULL;

	THROUGH(cuUserObjectCreate)
	(&object, NULL, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	THROUGH(cuUserObjectRelease)(object, 1);
}

static void *work(void *cookie)
{
	struct worker *w = cookie;
	CUcontext context = NULL;

	THROUGH(cuCtxCreate_v2)(&context, 0, 0);
	for (unsigned int round = 0; w->objects > 0; round++) {
		one_round(w, round);
		one_user_object();
	}
	THROUGH(cuCtxDestroy_v2)(context);
	return NULL;
}

/* Bytes in use on the heap afterwards. */
static size_t make_and_end(long objects)
{
	static struct worker workers[THREADS];
	struct mallinfo2 info;

	for (int i = 0; i < THREADS; i++) {
		workers[i].objects = objects / THREADS;
		lay_out_lines(&workers[i]);
		CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0,
		      "no thread");
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		for (size_t j = 0; j < line_count; j++)
			free(workers[i].making[j].buffers);
	}
	/* The one pool that all of them were given. */
	THROUGH(cuMemPoolDestroy)((CUmemoryPool)(uintptr_t)GIVER_POOL);
	info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

static void say_one(void *cookie, const struct registry_entry *entry)
{
	(void)cookie;
	printf("there is %s/%s/%s\n", entry->container, entry->resource->type->name, entry->name);
}

void check_soak(void)
{
	size_t before = books(NULL), pools = books("pool"), first, last;

	CHECK(line_count <= LINES_MAX, "%zu lines", line_count);
	first = make_and_end(OBJECTS / 10);
	last = make_and_end(OBJECTS - OBJECTS / 10);
	CHECK(mistakes == 0, "%ld calls failed", mistakes);
	CHECK(books(NULL) == before - pools, "%zu objects are in the books after the soak, not %zu",
	      books(NULL), before - pools);
	if (failures)
		registry_walk(job_devices()->device[0].registry, say_one, NULL);
	for (size_t i = 0; i < line_count; i++)
		CHECK(books(lines[i].type) == 0 || strcmp(lines[i].type, "context") == 0,
		      "%zu of type %s are in the books after the soak", books(lines[i].type),
		      lines[i].type);
	CHECK(last < first + HEAP_GROWTH, "the heap grew from %zu to %zu bytes", first, last);
	printf("%d objects: %zu bytes on the heap after a tenth, %zu after all\n", OBJECTS, first,
	       last);
}

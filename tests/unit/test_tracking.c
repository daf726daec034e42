/* SPDX-License-Identifier: MIT */
/*
 * Every row marked `track`: its objects are in the books until they are destroyed, by any version
 * of the call, or go with their owner or context. A refused destruction changes nothing. All that
 * is run on a line for each row that creates (tracking_lines.c). The rows that change or ask are in
 * tracking_changes.c, a million objects in tracking_soak.c. Fails when a row marked `track` is in
 * neither of the first two.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/freed.h"

#include "tests/unit/tracking.h"

enum { DEEP = 4 };

/* --- making and ending --- */

/*
 * The object as the line makes it; its handle is `handle` where that is not 0. *result NULL: it
 * must succeed.
 */
static uint64_t make_one(const struct line *l, uint64_t owner, uint64_t handle, CUresult *result)
{
	static union {
		uint64_t words[512];
		unsigned char bytes[4096];
	} properties;
	const CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	struct argument arguments[5];
	uint64_t out = 0;
	size_t count = 0;
	CUresult answer;

	if (!handle && l->flags & GIVEN)
		handle = l->owner ? owner : new_handle();
	if (!handle && !(l->flags & UNIQUE))
		handle = new_handle();
	for (size_t i = 0; i < 2; i++) {
		if (i == 0 || l->with[i].at || l->with[i].value)
			arguments[count++] = l->with[i];
	}
	if (l->place_at) {
		memset(&properties, 0, sizeof(properties));
		memcpy(properties.bytes + l->place, &place, sizeof(place));
		arguments[count++] = (struct argument){l->place_at - 1, WORD(&properties)};
	}
	if (l->owner)
		arguments[count++] = (struct argument){l->owner_at, owner};
	arguments[count++] = (struct argument){l->at, l->flags & GIVEN ? handle : WORD(&out)};
	atomic_store(&giver->again, handle);
	if (strcmp(l->type, "pool") == 0)
		atomic_store(&giver->pool, handle);
	answer = call_row(l->create, arguments, count);
	atomic_store(&giver->again, 0);
	atomic_store(&giver->pool, GIVER_POOL);
	was_exercised[l->create] = true;
	if (result)
		*result = answer;
	else
		CHECK(answer == CUDA_SUCCESS, "%s: %d", row_name[l->create], answer);
	return l->flags & GIVEN ? handle : out;
}

static CUresult end_one(enum entry end, uint64_t handle)
{
	was_exercised[end] = true;
	return call_row(end, &(struct argument){0, handle}, 1);
}

/* An object after all that it goes with: [0] goes with nobody. */
struct chain {
	int length;
	const struct line *line[DEEP];
	uint64_t handle[DEEP];
};

static void make_owners(struct chain *chain, const struct line *l)
{
	const struct line *owner = l->owner ? line_of(l->owner) : NULL;

	if (!owner)
		return;
	make_owners(chain, owner);
	chain->line[chain->length] = owner;
	chain->handle[chain->length] =
	    make_one(owner, chain->length ? chain->handle[chain->length - 1] : 0, 0, NULL);
	chain->length++;
}

static uint64_t owner_in(const struct chain *chain)
{
	return chain->length ? chain->handle[chain->length - 1] : 0;
}

static struct chain make_chain(const struct line *l)
{
	struct chain chain = {0};

	make_owners(&chain, l);
	chain.handle[chain.length] = make_one(l, owner_in(&chain), 0, NULL);
	chain.line[chain.length++] = l;
	return chain;
}

/* The object, if it is not ended yet, and what it goes with. */
static void end_chain(const struct chain *chain, bool is_ended)
{
	const struct line *l = chain->line[chain->length - 1];

	if (!is_ended && l->end[0])
		end_one(l->end[0], chain->handle[chain->length - 1]);
	if (chain->length > 1)
		end_one(chain->line[0]->end[0], chain->handle[0]);
}

#define EXPECT(l, number, ...)                                                                  \
	do {                                                                                    \
		size_t found_ = books((l)->type), expected_ = (number);                         \
		if (found_ != expected_)                                                        \
			FAIL("%s: %zu of type %s in the books, not %zu: %s",                    \
			     row_name[(l)->create], found_, (l)->type, expected_, __VA_ARGS__); \
	} while (0)

/* --- what is checked of each line --- */

static void check_refused_and_null(const struct line *l)
{
	size_t before = books(l->type);
	struct chain owners = {0};
	struct argument arguments[3];
	CUresult result;

	make_owners(&owners, l);
	atomic_store(&giver->row[l->create].answer, CUDA_ERROR_UNKNOWN);
	make_one(l, owner_in(&owners), 0, &result);
	atomic_store(&giver->row[l->create].answer, CUDA_SUCCESS);
	CHECK(result == CUDA_ERROR_UNKNOWN, "%s: the refusal became %d", row_name[l->create],
	      result);
	EXPECT(l, before, "the driver refused to create");
	if (!(l->flags & GIVEN)) {
		arguments[0] = l->with[0];
		arguments[1] = (struct argument){l->owner_at, owner_in(&owners)};
		arguments[2] = (struct argument){l->at, 0};
		call_row(l->create, arguments, 3);
		EXPECT(l, before, "created through a NULL parameter");
	}
	if (owners.length)
		end_one(owners.line[0]->end[0], owners.handle[0]);
	EXPECT(l, before, "afterwards");
}

/* By each call that does, in the context it was made in, and in another. */
static void check_ends(const struct line *l)
{
	size_t before = books(l->type);

	for (int i = 0; i < ENDS && l->end[i]; i++) {
		for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
			struct chain chain = make_chain(l);
			uint64_t object = chain.handle[chain.length - 1];
			size_t with = before + 1;

			EXPECT(l, with, "created");
			CHECK(in_books(l->type, object) != 0, "%s: not under its address",
			      row_name[l->create]);
			if (elsewhere && strcmp(l->type, "context") != 0)
				new_context();
			atomic_store(&giver->row[l->end[i]].answer, CUDA_ERROR_UNKNOWN);
			CHECK(end_one(l->end[i], object) == CUDA_ERROR_UNKNOWN,
			      "%s: the refusal is lost", row_name[l->end[i]]);
			atomic_store(&giver->row[l->end[i]].answer, CUDA_SUCCESS);
			EXPECT(l, with, "the driver refused to destroy");
			CHECK(end_one(l->end[i], object) == CUDA_SUCCESS, "%s failed",
			      row_name[l->end[i]]);
			if (elsewhere && strcmp(l->type, "context") != 0) {
				CUcontext other = NULL;

				BEHIND(cuCtxGetCurrent, &other);
				end_one(ENTRY_cuCtxDestroy_v2, WORD(other));
			}
			EXPECT(l, before, row_name[l->end[i]]);
			end_chain(&chain, true);
		}
	}
	EXPECT(l, before, "afterwards");
}

/* So that what is born after it is told from what was before. */
static void wait_for_tick(void)
{
	struct timespec before, now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &before);
	do
		clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	while (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec);
}

/* The driver gives an address that it gave before. */
static void check_again(const struct line *l)
{
	size_t before = books(l->type);
	struct chain chain, other = {0};
	uint64_t object, owner;
	bool same = l->owner ? !(l->flags & (STAYS | ANEW)) : (l->flags & (SAME | COUNTED)) != 0;
	uint64_t first;

	if (l->flags & UNIQUE)
		return;
	chain = make_chain(l);
	object = chain.handle[chain.length - 1];
	owner = chain.length > 1 ? chain.handle[chain.length - 2] : 0;
	first = in_books(l->type, object);
	wait_for_tick();
	make_one(l, owner, object, NULL);
	EXPECT(l, before + 1, "handed out twice");
	CHECK((in_books(l->type, object) == first) == same, "%s: handed out twice, %s",
	      row_name[l->create], same ? "not the same" : "what stood there before remains");
	if (l->flags & COUNTED) {
		end_one(l->end[0], object);
		EXPECT(l, before + 1, "handed out twice, ended once");
	}
	if (l->owner && same) {
		make_owners(&other, l);
		make_one(l, owner_in(&other), object, NULL);
		EXPECT(l, before + 1, "handed out by another owner");
		end_one(chain.line[0]->end[0], chain.handle[0]);
		EXPECT(l, before + 1, "its first owner is gone");
		end_one(other.line[0]->end[0], other.handle[0]);
	} else {
		end_chain(&chain, false);
	}
	EXPECT(l, before, "handed out twice, then ended");
}

/* --- while the driver is asked to destroy --- */

static struct {
	const struct line *line;
	uint64_t owner, object, born, charged;
	CUcontext context; /* the other thread's; NULL: it makes one */
	bool was_asked;
} asked;

/* Freed memory stays charged until its stream is there, at the latest after a wait for all work. */
static void settle(void)
{
	freed_wait();
}

static uint64_t charged(void)
{
	return device_charged(&job_devices()->device[0], SEGMENT_ON_DEVICE);
}

static bool is_context(const struct line *l)
{
	return strcmp(l->type, "context") == 0;
}

/* What the driver is asked about is found and charged as ever. */
static void look_while_asked(void)
{
	const struct line *l = asked.line;

	asked.was_asked = true;
	CHECK(in_books(l->type, asked.object) == asked.born, "%s: not in the books while asked",
	      row_name[l->create]);
	CHECK(charged() == asked.charged, "%s: charged %lld bytes more while asked",
	      row_name[l->create], (long long)(charged() - asked.charged));
	if (strcmp(l->type, "allocation") == 0) {
		struct allocation *found = allocation_find(asked.object);

		CHECK(found, "%s: not found by its address while asked", row_name[l->create]);
		if (found)
			resource_release(&found->resource);
	}
}

static void *make_another(void *cookie)
{
	(void)cookie;
	if (is_context(asked.line))
		; /* needs none */
	else if (asked.context)
		BEHIND(cuCtxPushCurrent_v2, asked.context);
	else
		asked.context = new_context();
	make_one(asked.line, asked.owner, asked.object, NULL);
	return NULL;
}

/* The driver has let go and not returned: another thread gets the handle for a new object. */
static void let_another_have_it(void)
{
	pthread_t other;

	look_while_asked();
	if (pthread_create(&other, NULL, make_another, NULL) != 0) {
		FAIL("no thread");
		return;
	}
	pthread_join(other, NULL);
}

static void ask(enum entry end, const struct chain *chain, void (*during)(void))
{
	const struct line *l = chain->line[chain->length - 1];
	uint64_t object = chain->handle[chain->length - 1];

	asked.line = l;
	asked.owner = chain->length > 1 ? chain->handle[chain->length - 2] : 0;
	asked.object = object;
	asked.born = in_books(l->type, object);
	asked.charged = charged();
	asked.was_asked = false;
	atomic_store(&giver->during_row, end);
	atomic_store(&giver->during, during);
	end_one(end, object);
	CHECK(asked.was_asked, "%s: the driver was not asked", row_name[end]);
}

/* What such a row hands out is always a new object, or what is to be ended once more. */
static bool makes_another(const struct line *l)
{
	return !(l->flags & UNIQUE) && (!(l->flags & SAME) || l->create == ENTRY_cuMemPoolCreate ||
	                                strcmp(l->type, "graph") == 0);
}

/*
 * While the driver is asked to destroy it, an object is in the books; refused, it is what it was;
 * and what the driver gives the handle to before it has answered is there afterwards, in the same
 * context or another.
 */
static void check_leaving(const struct line *l)
{
	size_t before = books(l->type);
	uint64_t charged_before;

	atomic_store(&giver->takes, 65536);
	settle();
	charged_before = charged();
	for (int i = 0; i < ENDS && l->end[i]; i++) {
		for (int elsewhere = 0; elsewhere < (is_context(l) ? 1 : 2) && makes_another(l);
		     elsewhere++) {
			struct chain chain = make_chain(l);
			uint64_t object = chain.handle[chain.length - 1], with;
			uint64_t born = in_books(l->type, object);

			settle();
			with = charged();
			asked.context = NULL;
			atomic_store(&giver->row[l->end[i]].answer, CUDA_ERROR_UNKNOWN);
			ask(l->end[i], &chain, look_while_asked);
			atomic_store(&giver->row[l->end[i]].answer, CUDA_SUCCESS);
			EXPECT(l, before + 1, "refused");
			CHECK(in_books(l->type, object) == born && charged() == with,
			      "%s: not what it was after a refusal", row_name[l->end[i]]);

			if (!elsewhere)
				BEHIND(cuCtxGetCurrent, &asked.context);
			wait_for_tick();
			ask(l->end[i], &chain, let_another_have_it);
			EXPECT(l, before + 1, "the next one of its handle");
			CHECK(in_books(l->type, object) != 0,
			      "%s: the next one of its handle is forgotten", row_name[l->end[i]]);
			CHECK(l->flags & COUNTED || in_books(l->type, object) > born,
			      "%s: it is still the old one", row_name[l->end[i]]);
			end_one(l->end[i], object);
			EXPECT(l, before, "the next one has ended");
			if (elsewhere)
				end_one(ENTRY_cuCtxDestroy_v2, WORD(asked.context));
			end_chain(&chain, true);
		}
	}
	atomic_store(&giver->takes, 0);
	settle();
	CHECK(charged() == charged_before, "%s: %lld bytes more are charged at the end",
	      row_name[l->create], (long long)(charged() - charged_before));
}

/* --- */

static void check_owners(const struct line *l)
{
	size_t before = books(l->type);
	struct chain shape = make_chain(l);

	end_chain(&shape, false);
	for (int depth = 0; depth < shape.length - 1; depth++) {
		for (int i = 0; i < ENDS && shape.line[depth]->end[i]; i++) {
			struct chain chain = make_chain(l);
			bool stays = (l->flags & STAYS) != 0;

			end_one(shape.line[depth]->end[i], chain.handle[depth]);
			EXPECT(l, before + stays, row_name[shape.line[depth]->end[i]]);
			if (stays)
				end_one(l->end[0], chain.handle[chain.length - 1]);
			EXPECT(l, before, "afterwards");
		}
	}
}

static void check_context_ends(const struct line *l)
{
	static const enum entry ends[] = {ENTRY_cuCtxDestroy, ENTRY_cuCtxDestroy_v2,
	                                  ENTRY_cuCtxDetach};
	size_t before = books(l->type);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		CUcontext context = new_context();
		struct chain chain = make_chain(l);
		bool stays = (l->flags & FREE) != 0;

		end_one(ends[i], WORD(context));
		EXPECT(l, before + stays, row_name[ends[i]]);
		if (chain.line[0]->flags & FREE)
			end_chain(&chain, !stays);
		EXPECT(l, before, "its context is gone");
	}
}

static void check_line(const struct line *l)
{
	int before = failures;
	size_t all = books(NULL);

	check_refused_and_null(l);
	if (failures == before)
		check_ends(l);
	if (failures == before)
		check_again(l);
	if (failures == before)
		check_leaving(l);
	if (failures == before)
		check_owners(l);
	if (failures == before)
		check_context_ends(l);
	CHECK(failures > before || books(NULL) == all,
	      "%s: %zu objects of all types in the books, not %zu: afterwards", row_name[l->create],
	      books(NULL), all);
}

static void check_inactive(void)
{
	CUcontext context;

	BEHIND(cuCtxCreate_v2, &context, 0, 0);
	for (size_t i = 0; i < line_count; i++) {
		struct chain chain = make_chain(&lines[i]);

		end_chain(&chain, false);
	}
	BEHIND(cuCtxDestroy_v2, context);
	memset(was_exercised, 0, sizeof(was_exercised));
}

static void check_coverage(void)
{
	for (int i = 0; i < ENTRY_COUNT; i++)
		CHECK(!strstr(row_action[i] ? row_action[i] : "", "track") || was_exercised[i],
		      "%s: marked track, and not tested", row_name[i]);
}

int main(void)
{
	size_t leaked;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!open_driver())
		return EXIT_FAILURE;
	check_inactive();
	begin_job();
	CHECK(books(NULL) == 0, "%zu objects from before cuInit are in the books", books(NULL));
	new_context();
	CALL(cuDeviceGetMemPool, {0, WORD(&(CUmemoryPool){0})}, {1, 0});
	leaked = books(NULL);
	for (size_t i = 0; i < line_count; i++)
		check_line(&lines[i]);
	check_changes();
	check_actions();
	CHECK(books(NULL) == leaked, "%zu objects in the books at the end, %zu at the beginning",
	      books(NULL), leaked);
	check_soak();
	check_coverage();
	printf("%zu rows that create; %d failures\n", line_count, failures);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

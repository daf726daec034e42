/* SPDX-License-Identifier: MIT */
/* Answers. Rules: by the mover thread alone, inside the user's process; each ends. */
#include "core/memory/move/answer.h"

#include "core/budget/wanted.h"
#include "core/cuda/capture.h"
#include "core/memory/alloc/reclaim.h"
#include "core/memory/move/balance.h"
#include "core/memory/move/moving.h"
#include "core/memory/move/plan.h"

/* Returns the bytes that must leave so that so much more is below the limit. */
static uint64_t missing(struct device *device, const struct terms *terms, uint64_t room)
{
	uint64_t wanted = device_charged(device, SEGMENT_ON_DEVICE) + room;

	return wanted > terms->limit ? wanted - terms->limit : 0;
}

/* The program may be at work just then: tried again, so that its call does not fail for that. */
enum { ROOM_TRIES = 3 };

static CUresult answer_room(const struct wanted_request *r)
{
	const struct terms terms = terms_of(r->device);
	struct deadline until = moving_deadline(&terms);
	uint64_t done = 0, bytes;
	int tries = ROOM_TRIES;
	bool has_room;

	balance_rest(r->device);
	has_room = reclaim_unused(r->device);
	for (;;) {
		bytes = missing(r->device, &terms, r->room);
		/* The device may be full of others' memory, whatever the limit. */
		if (done < r->room && bytes < r->room - done)
			bytes = r->room - done;
		if (!bytes || !tries)
			break;
		if (moving_make_room(r->device, &terms, bytes, 0, &until, &done) != MOVE_NONE)
			tries--;
	}
	return has_room || done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* In a row without anything having moved; then the asker is told that it is not ready. */
enum { PIN_TRIES = 64 };

/*
 * Goes one closure on towards pinning it. Returns why nothing has moved, or MOVE_NONE. *demoted: as
 * of moving_make_room().
 */
static enum move_pending move_to_pin(const struct wanted_request *r, const struct terms *terms,
                                     const struct choice *choice, struct deadline *until,
                                     uint64_t *demoted)
{
	bool lacks = false;
	enum move_pending why = moving_pin(r->device, terms, choice, r->is_exportable, &lacks);

	if (!lacks)
		return why;
	/* Memory that nobody uses goes before memory that somebody does. */
	if (reclaim_unused(r->device))
		return MOVE_NONE;
	/* What makes room for it is other memory. */
	return moving_make_room(r->device, terms, choice->of[0].size, choice->of[0].run, until,
	                        demoted);
}

/* Says what it lacks that others have: the device is full, and the limit is not. */
static CUresult lacks_room(struct wanted_request *r, const struct terms *terms,
                           const struct choice *choice)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < choice->count; i++)
		bytes += choice->of[i].size;
	if (!missing(r->device, terms, bytes))
		r->room = bytes;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult answer_pin(struct wanted_request *r)
{
	const struct movable_kind *kind = plan_kind_at(r->pin);
	const struct terms terms = terms_of(r->device);
	struct deadline until = moving_deadline(&terms);
	enum move_pending why = MOVE_NONE;
	uint64_t demoted = 0;
	struct choice choice;

	if (!kind) /* it has gone meanwhile */
		return CUDA_SUCCESS;
	for (int left = PIN_TRIES; left;) {
		choice.count = 0;
		kind->acquire(r->device);
		kind->choose_at(r->device, r->pin, r->is_exportable, &choice);
		if (!choice.count)
			kind->pin(r->device, r->pin);
		kind->release(r->device);
		if (!choice.count)
			return CUDA_SUCCESS;
		/* Others take what it makes free. */
		if (demoted > terms.limit)
			break;
		why = move_to_pin(r, &terms, &choice, &until, &demoted);
		if (why != MOVE_NONE && why != MOVE_WORK && why != MOVE_INSIDE)
			break;
		left = why == MOVE_NONE ? PIN_TRIES : left - 1;
	}
	switch (why) {
	case MOVE_WORK:
	case MOVE_INSIDE:
	case MOVE_CAPTURE:
		return CUDA_ERROR_NOT_READY;
	case MOVE_FAILED:
		return CUDA_ERROR_MAP_FAILED;
	default:
		return lacks_room(r, &terms, &choice);
	}
}

void answer_all(void)
{
	struct wanted_request *r;

	while ((r = wanted_take()) != NULL)
		wanted_answer(r, capture_is_active() ? CUDA_ERROR_NOT_READY
		                 : r->pin            ? answer_pin(r)
		                                     : answer_room(r));
}

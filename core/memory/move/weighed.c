/* SPDX-License-Identifier: MIT */
/* Weighing a device's memory. Rules: by the mover thread, inside the user's process. */
#include "core/memory/move/weighed.h"

#include <stdlib.h>

#include "core/memory/heat/weigh.h"
#include "core/memory/move/plan.h"

struct piece {
	CUdeviceptr address, run; /* run: where allocations move as a whole, all of one */
	uint64_t bytes, read;
	uint32_t number; /* of its run among those that kernels use */
	bool is_on_host, is_used;
};

struct pieces {
	struct piece *of;
	size_t count, room;
	bool is_on_host; /* those that are added now */
	bool is_whole;
	bool is_short; /* of memory */
};

static void add_piece(void *cookie, const struct candidate *candidate)
{
	struct pieces *pieces = cookie;

	if (pieces->count == pieces->room) {
		size_t room = pieces->room ? pieces->room * 2 : 256;
		struct piece *more = realloc(pieces->of, room * sizeof(*more));

		pieces->is_short |= !more;
		if (!more)
			return;
		pieces->of = more;
		pieces->room = room;
	}
	pieces->of[pieces->count++] =
	    (struct piece){.address = candidate->address,
	                   .run = pieces->is_whole ? candidate->whole : candidate->run,
	                   .bytes = candidate->size,
	                   .read = candidate->read,
	                   .is_on_host = pieces->is_on_host};
}

static int by_address(const void *a, const void *b)
{
	const CUdeviceptr x = *(const CUdeviceptr *)a, y = *(const CUdeviceptr *)b;

	return x < y ? -1 : x > y;
}

/* Lists all that may move, by address. Returns false without memory for it. */
static bool list_pieces(struct device *device, struct pieces *pieces)
{
	plan_each(device, SEGMENT_ON_DEVICE, add_piece, pieces);
	pieces->is_on_host = true;
	plan_each(device, SEGMENT_ON_HOST, add_piece, pieces);
	if (pieces->is_short)
		return false;
	if (pieces->count)
		qsort(pieces->of, pieces->count, sizeof(*pieces->of), by_address);
	return true;
}

/* Returns the first piece of the run that is at the address; the count where there is none. */
static size_t piece_at(const struct pieces *pieces, CUdeviceptr address)
{
	size_t low = 0, high = pieces->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (pieces->of[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || address - pieces->of[low - 1].address >= pieces->of[low - 1].bytes)
		return pieces->count;
	for (low--; low && pieces->of[low - 1].run == pieces->of[low].run;)
		low--;
	return low;
}

/*
 * Puts those that are used before the others, in order, and numbers their runs. Returns how many.
 */
static size_t number_runs(struct pieces *pieces, const struct survey *survey, uint32_t *runs)
{
	size_t used = 0;

	for (size_t i = 0; i < survey->uses; i++) {
		size_t at = piece_at(pieces, survey->use[i]);
		CUdeviceptr run = at < pieces->count ? pieces->of[at].run : 0;

		if (at < pieces->count && pieces->of[at].is_used)
			continue;
		for (; at < pieces->count && pieces->of[at].run == run; at++)
			pieces->of[at].is_used = true;
	}
	*runs = 0;
	for (size_t i = 0; i < pieces->count; i++) {
		if (!pieces->of[i].is_used)
			continue;
		*runs += !i || pieces->of[i - 1].run != pieces->of[i].run;
		pieces->of[i].number = *runs - 1;
		used++;
	}
	return used;
}

/* What weigh_up() is given and answers, in this device's words. */
struct question {
	struct weigh_case given;
	struct weigh_answer answer;
	struct weigh_kernel *kernel;
	uint32_t *use;
	struct weigh_piece *piece;
	uint32_t *at; /* which of all pieces each is, or begins with */
};

static void free_question(struct question *q)
{
	free(q->kernel);
	free(q->use);
	free(q->piece);
	free(q->at);
	free(q->answer.order);
}

static void fill_kernels(struct question *q, const struct survey *survey,
                         const struct pieces *pieces)
{
	for (size_t k = 0; k < survey->kernels; k++) {
		const struct weigh_kernel *kernel = &survey->kernel[k];

		q->kernel[k] = *kernel;
		q->kernel[k].first = (uint32_t)q->given.uses;
		for (uint32_t i = 0; i < kernel->uses; i++) {
			size_t at = piece_at(pieces, survey->use[kernel->first + i]);

			/* Parts of a large allocation that moves as a whole are one. */
			if (at < pieces->count &&
			    (q->given.uses == q->kernel[k].first ||
			     q->use[q->given.uses - 1] != pieces->of[at].number))
				q->use[q->given.uses++] = pieces->of[at].number;
		}
		q->kernel[k].uses = (uint32_t)q->given.uses - q->kernel[k].first;
	}
}

static void fill_pieces(struct question *q, const struct pieces *pieces)
{
	for (size_t i = 0; i < pieces->count; i++) {
		const struct piece *p = &pieces->of[i];

		if (!p->is_used)
			continue;
		if (pieces->is_whole && i && pieces->of[i - 1].run == p->run) {
			q->piece[q->given.pieces - 1].bytes += p->bytes;
			q->piece[q->given.pieces - 1].read += p->read;
			continue;
		}
		q->at[q->given.pieces] = (uint32_t)i;
		q->piece[q->given.pieces++] =
		    (struct weigh_piece){p->number, p->is_on_host, p->bytes, p->read};
	}
}

/* Returns false without memory for it, or where no memory is used that moves. */
static bool ask(struct question *q, const struct survey *survey, struct pieces *pieces)
{
	size_t used = number_runs(pieces, survey, &q->given.runs);

	q->kernel = calloc(survey->kernels + 1, sizeof(*q->kernel));
	q->use = calloc(survey->uses + 1, sizeof(*q->use));
	q->piece = calloc(used + 1, sizeof(*q->piece));
	q->at = calloc(used + 1, sizeof(*q->at));
	q->answer.order = calloc(used + 1, sizeof(*q->answer.order));
	if (!used || !q->kernel || !q->use || !q->piece || !q->at || !q->answer.order)
		return false;
	fill_kernels(q, survey, pieces);
	fill_pieces(q, pieces);
	q->given.kernel = q->kernel;
	q->given.kernels = survey->kernels;
	q->given.use = q->use;
	q->given.piece = q->piece;
	return true;
}

/* Lists all pieces. Returns false without memory for it. */
static bool list(struct weighed *w, const struct pieces *pieces)
{
	w->piece = calloc(pieces->count + 1, sizeof(*w->piece));
	w->pieces = w->piece ? pieces->count : 0;
	for (size_t i = 0; i < w->pieces; i++) {
		const struct piece *p = &pieces->of[i];

		w->piece[i] = (struct ranked){.address = p->address,
		                              .bytes = p->bytes,
		                              .is_used = p->is_used,
		                              .was_on_host = p->is_on_host};
		*(p->is_used ? &w->bytes : &w->unknown) += p->bytes;
	}
	return w->piece != NULL;
}

/* Has pieces leave next, together. */
static void rank(struct ranked *piece, size_t count, uint32_t *order, uint64_t *before)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++) {
		piece[i].order = (*order)++;
		piece[i].before = *before;
		bytes += piece[i].bytes;
	}
	*before += bytes;
}

/* Returns how many pieces move together with this one, the first of them. */
static size_t together(const struct pieces *pieces, size_t first)
{
	size_t end = first + 1;

	while (pieces->is_whole && end < pieces->count &&
	       pieces->of[end].run == pieces->of[first].run)
		end++;
	return end - first;
}

static void rank_all(struct weighed *w, const struct question *q, const struct pieces *pieces)
{
	uint64_t before = 0;
	uint32_t order = 0;

	for (size_t i = 0; i < q->given.pieces; i++) {
		uint32_t at = q->at[q->answer.order[i]];

		rank(&w->piece[at], together(pieces, at), &order, &before);
	}
}

void weighed_take_back(struct weighed *w)
{
	uint64_t before = 0;
	uint32_t order = 0;

	for (int stays = 0; stays < 2; stays++)
		for (size_t i = 0; i < w->pieces; i++)
			if (w->piece[i].was_on_host != stays)
				rank(&w->piece[i], 1, &order, &before);
	for (size_t i = 0; i < w->pieces; i++)
		w->piece[i].is_used = true;
	w->bytes += w->unknown;
	w->unknown = 0;
}

/* Returns what all kernels took, or 0. */
static double sum_times(const struct survey *survey)
{
	double sum = 0;

	for (size_t k = 0; k < survey->kernels; k++)
		sum += (double)survey->kernel[k].ns;
	return sum;
}

bool weighed_make(struct device *device, const struct survey *survey,
                  const struct weighed_terms *terms, struct weighed *weighed)
{
	struct pieces pieces = {.is_whole = terms->is_whole};
	struct question q = {0};
	struct weighed w = {.took = sum_times(survey), .kernels = survey->kernels};
	bool is_done =
	    list_pieces(device, &pieces) && ask(&q, survey, &pieces) && list(&w, &pieces);

	q.given.is_shared = terms->is_shared;
	w.spill = q.given.spill = terms->leaves > w.unknown ? terms->leaves - w.unknown : 0;
	is_done = is_done && weigh_up(&q.given, &q.answer);
	if (is_done) {
		w.now = q.answer.now;
		w.then = q.answer.then;
		w.least = q.answer.least;
		rank_all(&w, &q, &pieces);
		*weighed = w;
	} else {
		free(w.piece);
	}
	free_question(&q);
	free(pieces.of);
	return is_done;
}

void weighed_free(struct weighed *weighed)
{
	free(weighed->piece);
	*weighed = (struct weighed){0};
}

const struct ranked *weighed_find(const struct weighed *weighed, CUdeviceptr address)
{
	size_t low = 0, high = weighed->pieces;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (weighed->piece[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == weighed->pieces || weighed->piece[low].address != address)
		return NULL;
	return weighed->piece[low].is_used ? &weighed->piece[low] : NULL;
}

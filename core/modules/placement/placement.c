/* SPDX-License-Identifier: MIT */
/* Placement. Rules: by the mover thread, inside the user's process. */
#include "core/modules/placement/placement.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/budget/device.h"
#include "core/budget/terms.h"
#include "core/ledger/codes.h"
#include "core/memory/arena/host_probe.h"
#include "core/modules/placement/touch.h"
#include "core/modules/placement/record.h"
#include "core/modules/placement/survey.h"
#include "core/modules/placement/weigh.h"
#include "core/memory/move/copy_window.h"
#include "core/memory/move/plan.h"
#include "core/state/segment.h"

/*
 * Weighed memory: the movable memory of a device, as a survey (survey.h) found kernels to use
 * it, in the order in which it leaves (weigh.h). By the mover alone.
 */

#define SECOND 1000000000ull
/* Of less than one part in so many of the kernels' time it is not known how much is computing. */
#define KNOWN 10

struct ranked {
	CUdeviceptr address;
	uint64_t bytes;
	uint64_t before; /* bytes that leave before it */
	uint32_t order;
	bool is_used; /* by kernels; an unused piece leaves first, and has no place in the order */
	bool was_on_host; /* when it was weighed */
};

struct weighed {
	struct ranked *piece; /* by address; NULL: nothing was weighed */
	size_t pieces;
	uint64_t bytes, unknown; /* of used pieces, and of the rest */
	uint64_t spill;          /* bytes of those that are used that had to be on the host */
	/*
	 * The time of all kernels together, in nanoseconds. Three are the estimate for memory as it
	 * was, as it will be, and with nothing on the host. One is as it was measured; 0: it was
	 * not.
	 */
	double now, then, least, took; /* least: 0 where it is not known */
	bool is_worth;                 /* of `placement` auto: it moves */
	size_t kernels;                /* of the survey */
};

struct weighed_terms {
	uint64_t leaves; /* bytes that have to be on the host, of all that can move */
	uint64_t held;   /* bytes of the process on both tiers */
	uint64_t limit;
	bool is_shared; /* other programs' kernels ran during the survey */
	bool is_whole;  /* allocations move as a whole */
};

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

static void placement_add_piece(void *cookie, const struct candidate *candidate)
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
	plan_each(device, SEGMENT_ON_DEVICE, placement_add_piece, pieces);
	pieces->is_on_host = true;
	plan_each(device, SEGMENT_ON_HOST, placement_add_piece, pieces);
	if (pieces->count)
		qsort(pieces->of, pieces->count, sizeof(*pieces->of), by_address);
	return !pieces->is_short;
}

/* Returns the first piece of the run that is at the address; the count where there is none. */
static size_t placement_piece_at(const struct pieces *pieces, CUdeviceptr address)
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

/* Puts used pieces before the others, in order, and numbers their runs. Returns how many. */
static size_t number_runs(struct pieces *pieces, const struct survey *survey, uint32_t *runs)
{
	size_t used = 0;

	for (size_t i = 0; i < survey->uses; i++) {
		size_t at = placement_piece_at(pieces, survey->use[i]);
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

/* The arguments and answers of weigh_up(), in this device's words. */
struct question {
	struct weigh_case given;
	struct weigh_answer answer;
	struct weigh_kernel *kernel;
	uint32_t *use;
	struct weigh_piece *piece;
	uint32_t *at; /* which of all pieces each is, or begins with */
};

static void fill_kernels(struct question *q, const struct survey *survey,
                         const struct pieces *pieces)
{
	for (size_t k = 0; k < survey->kernels; k++) {
		const struct weigh_kernel *kernel = &survey->kernel[k];

		q->kernel[k] = *kernel;
		q->kernel[k].first = (uint32_t)q->given.uses;
		for (uint32_t i = 0; i < kernel->uses; i++) {
			size_t at = placement_piece_at(pieces, survey->use[kernel->first + i]);

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
static bool placement_pose(struct question *q, const struct survey *survey, struct pieces *pieces)
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
static bool placement_list(struct weighed *w, const struct pieces *pieces)
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

/* Has all leave first that was on the host when it was weighed, as if it had not been. */
static void weighed_take_back(struct weighed *w)
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

/* --- the record of a survey; a disk that is full costs it alone --- */

/* A record that is being written; all zero at first. */
struct record {
	char *text;
	size_t size, room;
	bool is_short; /* of memory: nothing is published */
};

enum { RECORD_LINE_MAX = 160, RECORD_ROOM = 1 << 16 };

/* Returns whether another line fits. */
static bool record_has_room(struct record *record)
{
	size_t room = record->room ? record->room * 2 : RECORD_ROOM;
	char *text;

	if (record->room - record->size >= RECORD_LINE_MAX)
		return true;
	text = record->is_short ? NULL : realloc(record->text, room);
	record->is_short |= !text;
	if (!text)
		return false;
	record->text = text;
	record->room = room;
	return true;
}

static __attribute__((format(printf, 2, 3))) void record_add(struct record *record,
                                                             const char *format, ...)
{
	va_list arguments;

	if (!record_has_room(record))
		return;
	va_start(arguments, format);
	record->size +=
	    (size_t)vsnprintf(record->text + record->size, RECORD_LINE_MAX, format, arguments);
	va_end(arguments);
}

/* Gives the record its name, in the place of an earlier one, and frees it. */
static void record_publish(struct record *record, const struct device *device)
{
	int error = record->is_short  ? -ENOMEM
	            : device->segment ? segment_put_survey(device->segment, device->index,
	                                                   record->text, record->size)
	                              : 0;

	if (error)
		log_info("device %d: its survey is not written for what-if: %s", device->index,
		         strerror(-error));
	free(record->text);
	*record = (struct record){0};
}

/* Writes the addresses that a kernel was given, up to a 0. Returns where that is. */
static const CUdeviceptr *placement_write_node(struct record *r, const struct pieces *pieces,
                                               unsigned long long number, const CUdeviceptr *word)
{
	record_add(r, "%llu", number);
	for (; *word; word++) {
		size_t at = placement_piece_at(pieces, *word);

		if (at < pieces->count && pieces->of[at].is_used)
			record_add(r, " %u %llu", pieces->of[at].number,
			           (unsigned long long)(*word - pieces->of[at].address));
	}
	record_add(r, "\n");
	return word;
}

/* Writes which addresses the kernels of each launch were given. */
static void placement_write_nodes(struct record *r, const struct survey *survey,
                                  const struct pieces *pieces)
{
	const CUdeviceptr *word = survey->given, *end = word + survey->givens;

	record_add(r, "nodes\n");
	for (; word < end; word++) {
		unsigned long long number = *word++;

		for (; *word != SURVEY_GIVEN_END; word++)
			word = placement_write_node(r, pieces, number, word);
	}
	record_add(r, "end\n");
}

/* Writes all of it for the tool, which asks weigh.h about other limits. */
static void placement_write_record(struct device *device, const struct survey *survey,
                                   const struct weighed_terms *terms, const struct question *q,
                                   const struct pieces *pieces)
{
	typedef unsigned long long ull;
	struct record r = {0};
	uint64_t token = 0, started_ns;

	if (device->segment)
		segment_identity(device->segment, &token, &started_ns);
	record_add(&r, "spillway-survey %d\nname %s\n", RECORD_VERSION, device->name);
	record_add(&r, "gpu %d %llu %llu\nlimit %llu\nheld %llu\n", device->index,
	           (ull)device->id.memory, (ull)token, (ull)terms->limit, (ull)terms->held);
	record_add(&r, "link %llu %llu\nhow %d %d %d\npieces %zu\n",
	           (ull)link_bytes(device, SEGMENT_ON_HOST, SECOND),
	           (ull)link_bytes(device, SEGMENT_ON_DEVICE, SECOND),
	           survey->has_steps ? SURVEY_STEPS : 0, terms->is_shared, terms->is_whole,
	           pieces->count);
	for (size_t i = 0; i < pieces->count; i++) {
		const struct piece *p = &pieces->of[i];

		record_add(&r, "%lld %d %llu %llu\n", p->is_used ? (long long)p->number : -1,
		           p->is_on_host, (ull)p->bytes, (ull)p->read);
	}
	record_add(&r, "kernels %zu\n", q->given.kernels);
	for (size_t k = 0; k < q->given.kernels; k++) {
		const struct weigh_kernel *kernel = &q->kernel[k];

		record_add(&r, "%llu %llu %llu %u", (ull)kernel->key, (ull)kernel->ns,
		           (ull)kernel->at_ns, kernel->uses);
		for (uint32_t i = 0; i < kernel->uses; i++)
			record_add(&r, " %u", q->use[kernel->first + i]);
		record_add(&r, "\n");
	}
	placement_write_nodes(&r, survey, pieces);
	record_publish(&r, device);
}

/*
 * Weighs the movable memory of the device. Returns false without memory for it, or where kernels
 * use none that moves.
 */
static bool weighed_make(struct device *device, const struct survey *survey,
                         const struct weighed_terms *terms, struct weighed *weighed)
{
	struct pieces pieces = {.is_whole = terms->is_whole};
	struct question q = {0};
	struct weighed w = {.kernels = survey->kernels};
	bool is_done = list_pieces(device, &pieces) && placement_pose(&q, survey, &pieces) &&
	               placement_list(&w, &pieces);

	for (size_t k = 0; k < survey->kernels; k++)
		w.took += (double)survey->kernel[k].ns;
	q.given.is_shared = terms->is_shared;
	w.spill = q.given.spill = terms->leaves > w.unknown ? terms->leaves - w.unknown : 0;
	is_done = is_done && weigh_up(&q.given, &q.answer);
	if (is_done) {
		w.now = q.answer.now;
		w.then = q.answer.then;
		w.least = q.answer.unknown * KNOWN < q.answer.now ? q.answer.least : 0;
		w.is_worth = weigh_is_worth(&q.answer);
		rank_all(&w, &q, &pieces);
		if (w.took > 0)
			placement_write_record(device, survey, terms, &q, &pieces);
		*weighed = w;
	} else {
		free(w.piece);
	}
	free(q.kernel);
	free(q.use);
	free(q.piece);
	free(q.at);
	free(q.answer.order);
	free(pieces.of);
	return is_done;
}

/* Forgets it. */
static void weighed_free(struct weighed *weighed)
{
	free(weighed->piece);
	*weighed = (struct weighed){0};
}

/* Returns the piece at the address that is used, or NULL. */
static const struct ranked *weighed_find(const struct weighed *weighed, CUdeviceptr address)
{
	const struct ranked *found = weighed->pieces
	                                 ? bsearch(&address, weighed->piece, weighed->pieces,
	                                           sizeof(*weighed->piece), by_address)
	                                 : NULL;

	return found && found->is_used ? found : NULL;
}

/* Findings are made anew so much later; a survey that failed, at first and at last. */
#define AGAIN      (600 * SECOND)
#define SOON       (10 * SECOND)
#define LATER_MOST AGAIN
/* Another part of the memory has to be on the host than was decided for: so much is a change. */
enum { CHANGED = 16 };
/* With `balanced` for any gain, but not for a rounding. */
#define GAIN_AT_ALL 0.001
/* Decided places go back if kernels take more than so many times as long as before. */
#define WORSE 1.01
/* Decided moves hurry for so long; then they wait as all others do. */
#define HURRIES (60 * SECOND)

/* The state of a device. */
static struct placement {
	struct weighed weighed; /* the decision */
	uint64_t spill;         /* bytes of the pieces that have to be on the host now */
	uint64_t held;          /* bytes of the process on both tiers now */
	uint64_t decided_for;   /* so many then */
	uint32_t since;         /* heat's time when the survey was begun */
	bool is_surveyed;       /* the survey under way is this device's */
	bool is_measured;       /* by it, now: the measurement shall be true of where memory is */
	bool acts;              /* memory on the wrong tier is exchanged */
	bool is_tried;      /* so it does, and whether that was worth it is still to be measured */
	bool is_even;       /* all that is to be exchanged has been */
	bool has_gone_back; /* it was not worth it: memory goes back, and stays */
	bool is_awaited;    /* the first survey has not ended, and may say something */
	bool was_surveyed;  /* a survey has ended */
	bool is_full;       /* memory on the host has found no room since any was there */
	uint32_t before;    /* as of struct placed, */
	uint32_t best;      /* and this */
	uint64_t not_before, again, pause, decided_ns;
} placements[DEVICE_MAX];

static struct placement *placement_of(const struct device *device)
{
	return &placements[device->id.ordinal];
}

/* --- ranks --- */

static uint64_t in(enum heat heat, uint32_t order)
{
	return (uint64_t)heat << 32 | order;
}

static uint64_t placement_rank(const struct device *device, CUdeviceptr address, uint32_t touched,
                               uint32_t now)
{
	const struct placement *p = placement_of(device);
	const struct ranked *ranked = weighed_find(&p->weighed, address);
	enum heat heat = p->is_measured ? HEAT_HOT : heat_of(touched, now);

	if (ranked)
		return in(p->acts && !p->is_measured && ranked->before < p->spill ? HEAT_COLD
		                                                                  : HEAT_HOT,
		          ranked->order);
	/*
	 * Memory that the survey did not meet is used less than memory that it met, unless it is
	 * new.
	 */
	if (p->weighed.pieces && !p->is_measured && heat >= HEAT_MILD &&
	    heat_age(touched, now) >= heat_age(p->since, now))
		heat = HEAT_WARM;
	return in(heat, touched);
}

static bool placement_is_awaited(const struct device *device)
{
	return placement_of(device)->is_awaited;
}

static bool placement_is_settled(const struct device *device)
{
	const struct placement *p = placement_of(device);

	return p->weighed.pieces && !p->is_surveyed;
}

static bool placement_has_decided(const struct device *device, CUdeviceptr address)
{
	return placement_is_settled(device) &&
	       weighed_find(&placement_of(device)->weighed, address);
}

static void placement_note_full(const struct device *device)
{
	placement_of(device)->is_full = true;
}

static bool placement_is_full(const struct device *device)
{
	return placement_of(device)->is_full;
}

static void placement_note_even(const struct device *device)
{
	struct placement *p = placement_of(device);

	if (p->acts && !p->is_surveyed)
		p->is_even = true;
}

static bool placement_hurries(const struct device *device)
{
	const struct placement *p = placement_of(device);

	return p->acts && !p->is_even && !p->is_surveyed && clock_now() - p->decided_ns < HURRIES;
}

/* --- deciding --- */

/*
 * Returns the bytes that have to be on the host, of all that can move: those beyond the limit, and
 * on a full device all that are there.
 */
static uint64_t must_leave(const struct placement *p, const struct terms *terms, uint64_t charged,
                           uint64_t spare, uint64_t on_host)
{
	uint64_t movable = on_host + charged, limit = terms_limit_of_movable(terms);
	uint64_t beyond = movable > limit ? movable - limit : 0;
	uint64_t stays = p->is_full && on_host > spare ? on_host - spare : 0;

	return beyond > stays ? beyond : stays;
}

/* Returns whether a survey may say anything that these settings let be done. */
static bool may_be_found(const struct terms *terms)
{
	const struct config_gpu *settings = &terms->settings;

	return settings->placement == PLACEMENT_BALANCED ||
	       (settings->placement == PLACEMENT_AUTO && settings->steps != STEPS_OFF);
}

static bool is_worth(const struct weighed *w, uint64_t placement)
{
	return placement == PLACEMENT_BALANCED ? w->now - w->then > GAIN_AT_ALL * w->now
	                                       : w->is_worth;
}

static void placement_forget(struct placement *p)
{
	weighed_free(&p->weighed);
	p->before = p->best = 0;
	p->acts = p->is_tried = p->is_even = p->has_gone_back = false;
}

/* Returns a time of all kernels in percent of their time with nothing on the host. */
static uint32_t percent(const struct weighed *w, double time)
{
	double percent = w->least > 0 ? 100 * time / w->least : 0;

	return percent < PLACED_MOST ? (uint32_t)percent : PLACED_MOST;
}

/* Publishes the placement in force, for readers. */
static void placement_show(const struct device *device, const struct placement *p,
                           const struct terms *terms, uint64_t on_host)
{
	bool is_balanced = p->acts && !p->has_gone_back;
	struct placed placed = {
	    .placement = !on_host            ? PLACED_NOWHERE
	                 : p->weighed.pieces ? is_balanced ? PLACED_BALANCED : PLACED_KEPT
	                 : p->is_surveyed    ? PLACED_SURVEYED
	                                     : PLACED_BY_HEAT,
	    .shrink = terms->settings.shrink == SHRINK_GENTLE ? SHRINKS_GENTLY : SHRINKS_FAST,
	    .before = p->before,
	    .best = p->best};

	atomic_store_explicit(device->placed, placed_pack(&placed), memory_order_relaxed);
}

static void placement_say(const struct device *device, const struct weighed *w, bool acts)
{
	const char *then = acts ? "it moves" : "it stays";

	if (w->least > 0)
		log_info("device %d: measured over two steps: kernels take %.*f times as long as "
		         "with no memory on the host, with the best placement %.*f times: %s",
		         device->index, UNITS_TIMES(w->now / w->least),
		         UNITS_TIMES(w->then / w->least), then);
	else
		log_info("device %d: measured over two steps: kernels waited for the host in all "
		         "launches; with the best placement they take %.*f times as long: %s",
		         device->index, UNITS_TIMES(w->now > 0 ? w->then / w->now : 1), then);
}

static bool differs(uint64_t a, uint64_t b, uint64_t of)
{
	return (a > b ? a - b : b - a) > of / CHANGED;
}

/* Returns whether another part of the memory has to be on the host than was decided for. */
static bool placement_has_changed(const struct placement *p)
{
	return differs(p->spill, p->decided_for, p->weighed.bytes);
}

/* Returns whether the same kernels use the same memory as when it was decided. */
static bool placement_is_same(const struct placement *p, const struct weighed *now)
{
	const struct weighed *then = &p->weighed;
	uint64_t all = then->bytes + then->unknown;

	return !placement_has_changed(p) && !differs(now->bytes + now->unknown, all, all) &&
	       now->kernels == then->kernels;
}

/* Has memory go back where it was if kernels took less time then, against the estimate. */
static void placement_judge(const struct device *device, struct placement *p,
                            const struct weighed *now, uint64_t leaves)
{
	double times = now->took / p->weighed.took;

	p->is_tried = false;
	/* Beside other jobs the times show their work. */
	if (times <= WORSE || yield_is_on_call(device))
		return;
	log_info("device %d: kernels take %.2f times as long as before memory moved: it goes back",
	         device->index, times);
	p->has_gone_back = true;
	p->is_even = false;
	p->decided_ns = clock_now();
	weighed_take_back(&p->weighed);
	p->spill = p->decided_for = leaves;
}

static void placement_decide(struct device *device, struct placement *p,
                             const struct survey *survey, const struct terms *terms,
                             uint64_t leaves)
{
	struct weighed_terms how = {.leaves = leaves,
	                            .held = p->held,
	                            .limit = terms->limit,
	                            .is_shared = yield_is_on_call(device),
	                            .is_whole = !host_probe_may_mix(device, terms)};
	bool is_judged;
	struct weighed w;

	if (!weighed_make(device, survey, &how, &w))
		return;
	is_judged = placement_is_same(p, &w) && p->is_tried && p->is_even;
	if (is_judged)
		placement_judge(device, p, &w, leaves);
	if (is_judged || (p->has_gone_back && placement_is_same(p, &w))) {
		weighed_free(&w);
		return;
	}
	placement_forget(p);
	p->weighed = w;
	p->spill = p->decided_for = w.spill;
	p->acts = may_be_found(terms) && is_worth(&w, terms->settings.placement);
	p->is_tried = p->acts && w.took > 0 && !how.is_shared;
	p->decided_ns = clock_now();
	p->before = percent(&w, w.now);
	p->best = percent(&w, w.then);
	placement_say(device, &w, p->acts);
}

/* --- surveys --- */

/*
 * Returns whether surveys are made though nothing is on the host, for the tool: again and again,
 * because the first may be of the program's work before its steps.
 */
static bool is_recorded(const struct terms *terms)
{
	return terms->settings.survey == CONFIG_SURVEY_ALWAYS;
}

static void placement_begin(const struct device *device, struct placement *p,
                            const struct terms *terms)
{
	uint64_t now = clock_now();
	uint64_t again = !p->spill && is_recorded(terms) ? p->not_before : p->again;
	bool is_known = p->weighed.pieces && now < again && !placement_has_changed(p);

	if (now < p->not_before || (is_known && !(p->is_tried && p->is_even)))
		return;
	p->since = heat_now();
	p->is_surveyed = survey_begin(device->id.ordinal, terms->settings.steps != STEPS_OFF, now);
}

/* Ends the survey under way. was_found: it told something. */
static void placement_end(struct placement *p, bool was_found)
{
	uint64_t now = clock_now();

	survey_end();
	p->is_surveyed = p->is_measured = false;
	p->was_surveyed = true;
	p->pause = was_found || !p->pause ? SOON : p->pause < LATER_MOST ? p->pause * 2 : p->pause;
	p->not_before = now + p->pause;
	p->again = now + AGAIN;
}

static void placement_go_on(struct device *device, struct placement *p, const struct terms *terms,
                            uint64_t leaves)
{
	uint64_t now = clock_now();
	enum survey_state state = survey_poll(now);

	p->is_measured = state == SURVEY_TAKEN || state == SURVEY_READ;
	switch (state) {
	case SURVEY_WITHOUT_STEPS:
		if (terms->settings.placement == PLACEMENT_BALANCED || is_recorded(terms))
			survey_without_steps(now, is_recorded(terms));
		else
			placement_end(p, false);
		break;
	case SURVEY_DONE:
		placement_decide(device, p, survey_found(), terms, leaves);
		placement_end(p, true);
		break;
	case SURVEY_FAILED:
		log_info("device %d: memory is placed by heat: %s", device->index,
		         survey_failure());
		placement_forget(p);
		placement_end(p, false);
		break;
	default:
		break;
	}
}

static void placement_poll(struct device *device, const struct terms *terms, uint64_t charged,
                           uint64_t spare, uint64_t on_host)
{
	struct placement *p = placement_of(device);
	bool is_wanted = terms_limit_of_movable(terms) &&
	                 (is_recorded(terms) || (on_host && may_be_found(terms)));
	uint64_t leaves;

	p->is_full &= on_host != 0;
	p->held = charged + on_host;
	leaves = must_leave(p, terms, charged, spare, on_host);
	p->spill = leaves > p->weighed.unknown ? leaves - p->weighed.unknown : 0;
	if (p->is_surveyed && is_wanted)
		placement_go_on(device, p, terms, leaves);
	else if (p->is_surveyed)
		placement_end(p, false);
	else if (is_wanted)
		placement_begin(device, p, terms);
	p->is_awaited = is_wanted && on_host && !p->was_surveyed;
	if (!may_be_found(terms))
		placement_forget(p);
	placement_show(device, p, terms, on_host);
}

void placement_add_calls(struct placement_calls *calls)
{
	calls->rank = placement_rank;
	calls->poll = placement_poll;
	calls->note_full = placement_note_full;
	calls->is_full = placement_is_full;
	calls->is_awaited = placement_is_awaited;
	calls->has_decided = placement_has_decided;
	calls->note_even = placement_note_even;
	calls->hurries = placement_hurries;
	calls->is_settled = placement_is_settled;
}

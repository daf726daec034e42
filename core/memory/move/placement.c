/* Placement. Rules: by the mover thread, inside the user's process. */
#include "core/memory/move/placement.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/ledger/placed.h"
#include "core/memory/heat/heat.h"
#include "core/memory/heat/survey.h"
#include "core/memory/move/plan.h"

#define SECOND 1000000000ull
/* What is known is found out anew so much later; what was not to be found, at first and at last. */
#define AGAIN      (600 * SECOND)
#define SOON       (10 * SECOND)
#define LATER_MOST AGAIN
/* Another part of the memory has to be on the host than was decided for: so much is a change. */
enum { CHANGED = 16 };
/* With `auto` memory moves for a gain of so much of what the host costs, and of a step. */
#define GAIN_OF_LOSS 0.05
#define GAIN_OF_STEP 0.01
/* With `balanced` for any gain, but not for a rounding. */
#define GAIN_AT_ALL 0.001

struct ranked {
	CUdeviceptr address;
	uint64_t before; /* bytes that leave before it */
	uint32_t order;
};

/* What is known of a device. */
static struct placement {
	struct ranked *piece; /* by address; NULL: nothing was decided */
	size_t pieces;
	uint64_t bytes;       /* of them */
	uint64_t unknown;     /* bytes of movable memory that no kernel used: they leave first */
	uint64_t spill;       /* bytes of the pieces that have to be on the host now */
	uint64_t decided_for; /* so many then */
	uint32_t since;       /* heat's time when the survey was begun */
	bool is_surveyed;     /* the survey under way is this device's */
	bool is_measured;     /* by it, now: what was measured shall be true of where memory is */
	bool acts;            /* what is on the wrong side is exchanged */
	bool is_awaited;      /* the first survey has not ended, and may say something */
	bool was_surveyed;    /* a survey has ended */
	uint32_t before;      /* as of struct placed, */
	uint32_t best;        /* and this */
	uint64_t not_before, again, pause;
} placements[DEVICE_MAX];

static struct placement *placement_of(const struct device *device)
{
	return &placements[device->id.ordinal];
}

/* --- ranks --- */

static const struct ranked *find(const struct placement *p, CUdeviceptr address)
{
	size_t low = 0, high = p->pieces;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (p->piece[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < p->pieces && p->piece[low].address == address ? &p->piece[low] : NULL;
}

static uint64_t in(enum heat heat, uint32_t order)
{
	return (uint64_t)heat << 32 | order;
}

uint64_t placement_rank(const struct device *device, CUdeviceptr address, uint32_t touched,
                        uint32_t now)
{
	const struct placement *p = placement_of(device);
	const struct ranked *ranked = find(p, address);
	enum heat heat = p->is_measured ? HEAT_HOT : heat_of(touched, now);

	if (ranked)
		return in(p->acts && !p->is_measured && ranked->before < p->spill ? HEAT_COLD
		                                                                  : HEAT_HOT,
		          ranked->order);
	/* What the survey did not meet is used less than what it met, unless it is new. */
	if (p->pieces && !p->is_measured && heat >= HEAT_MILD &&
	    heat_age(touched, now) >= heat_age(p->since, now))
		heat = HEAT_WARM;
	return in(heat, touched);
}

bool placement_is_awaited(const struct device *device)
{
	return placement_of(device)->is_awaited;
}

bool placement_has_decided(const struct device *device, CUdeviceptr address)
{
	return placement_is_settled(device) && find(placement_of(device), address);
}

bool placement_is_settled(const struct device *device)
{
	const struct placement *p = placement_of(device);

	return p->pieces && !p->is_surveyed;
}

/* --- deciding --- */

struct piece {
	CUdeviceptr address, run;
	uint64_t bytes, read;
	uint32_t number; /* of its run among those that kernels use */
	bool is_on_host, is_used;
};

struct pieces {
	struct piece *of;
	size_t count, room;
	bool is_on_host; /* those that are added now */
	bool is_short;   /* of memory */
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
	pieces->of[pieces->count++] = (struct piece){.address = candidate->address,
	                                             .run = candidate->run,
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
	*pieces = (struct pieces){0};
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
	struct ranked *ranked; /* those of the pieces, in their order */
	uint64_t bytes;
};

static void free_question(struct question *q)
{
	free(q->kernel);
	free(q->use);
	free(q->piece);
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

			if (at < pieces->count)
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
		q->ranked[q->given.pieces].address = p->address;
		q->piece[q->given.pieces++] =
		    (struct weigh_piece){p->number, p->is_on_host, p->bytes, p->read};
		q->bytes += p->bytes;
	}
}

/* Returns false without memory for it, or where no memory is used that moves. */
static bool ask(struct question *q, const struct survey *survey, struct pieces *pieces)
{
	size_t used = number_runs(pieces, survey, &q->given.runs);

	q->kernel = calloc(survey->kernels + 1, sizeof(*q->kernel));
	q->use = calloc(survey->uses + 1, sizeof(*q->use));
	q->piece = calloc(used + 1, sizeof(*q->piece));
	q->ranked = calloc(used + 1, sizeof(*q->ranked));
	q->answer.order = calloc(used + 1, sizeof(*q->answer.order));
	if (!used || !q->kernel || !q->use || !q->piece || !q->ranked || !q->answer.order)
		return false;
	fill_kernels(q, survey, pieces);
	fill_pieces(q, pieces);
	q->given.kernel = q->kernel;
	q->given.kernels = survey->kernels;
	q->given.use = q->use;
	q->given.piece = q->piece;
	return true;
}

/* Returns the bytes of the pieces that have to be on the host. */
static uint64_t must_spill(const struct placement *p, uint64_t limit, uint64_t charged,
                           uint64_t on_host)
{
	uint64_t movable = on_host + charged, stays = limit + p->unknown;

	return movable > stays ? movable - stays : 0;
}

static bool is_worth(const struct weigh_answer *answer, uint64_t placement)
{
	double gain = answer->now - answer->then, loss = answer->now - answer->least;

	if (placement == PLACEMENT_BALANCED)
		return gain > GAIN_AT_ALL * answer->now;
	return gain >= GAIN_OF_LOSS * loss && gain >= GAIN_OF_STEP * answer->now && gain > 0;
}

static void forget(struct placement *p)
{
	free(p->piece);
	p->piece = NULL;
	p->pieces = 0;
	p->before = p->best = 0;
	p->acts = false;
}

/* Takes over what was decided. */
static void take_over(struct placement *p, struct question *q)
{
	uint64_t before = 0;

	for (size_t i = 0; i < q->given.pieces; i++) {
		uint32_t piece = q->answer.order[i];

		q->ranked[piece].order = (uint32_t)i;
		q->ranked[piece].before = before;
		before += q->piece[piece].bytes;
	}
	forget(p);
	p->piece = q->ranked;
	p->pieces = q->given.pieces;
	p->bytes = q->bytes;
	q->ranked = NULL;
}

/* Returns a time of all kernels in percent of what they take with nothing on the host. */
static uint32_t percent(const struct weigh_answer *answer, double time)
{
	double percent = answer->least > 0 ? 100 * time / answer->least : 0;

	return percent < PLACED_MOST ? (uint32_t)percent : PLACED_MOST;
}

/* Publishes what is in force, for those who look. */
static void show(const struct device *device, const struct placement *p, const struct terms *terms,
                 uint64_t on_host)
{
	struct placed placed = {.placement = !on_host    ? PLACED_NOWHERE
	                                     : p->pieces ? p->acts ? PLACED_BALANCED : PLACED_KEPT
	                                     : p->is_surveyed ? PLACED_SURVEYED
	                                                      : PLACED_BY_HEAT,
	                        .shrink = terms->settings.shrink == SHRINK_GENTLE ? SHRINKS_GENTLY
	                                                                          : SHRINKS_FAST,
	                        .before = p->before,
	                        .best = p->best};

	atomic_store_explicit(device->placed, placed_pack(&placed), memory_order_relaxed);
}

static void say(const struct device *device, const struct weigh_answer *answer, bool acts)
{
	log_info(
	    "device %d: where memory is best: kernels take %.2f times as long as with nothing on "
	    "the host, and %.2f times once that is elsewhere: %s",
	    device->index, answer->now / answer->least, answer->then / answer->least,
	    acts ? "it moves" : "it stays");
}

static void decide(struct device *device, struct placement *p, const struct survey *survey,
                   const struct terms *terms, uint64_t charged, uint64_t on_host)
{
	struct pieces pieces;
	struct question q = {0};
	bool is_asked = list_pieces(device, &pieces) && ask(&q, survey, &pieces);

	if (is_asked) {
		p->unknown = 0;
		for (size_t i = 0; i < pieces.count; i++)
			p->unknown += pieces.of[i].is_used ? 0 : pieces.of[i].bytes;
		q.given.spill = must_spill(p, terms_limit_of_movable(terms), charged, on_host);
		is_asked = weigh_up(&q.given, &q.answer);
	}
	if (is_asked) {
		take_over(p, &q);
		p->spill = p->decided_for = q.given.spill;
		p->acts = is_worth(&q.answer, terms->settings.placement);
		p->before = percent(&q.answer, q.answer.now);
		p->best = percent(&q.answer, q.answer.then);
		say(device, &q.answer, p->acts);
	}
	free(q.ranked);
	free_question(&q);
	free(pieces.of);
}

/* --- surveys --- */

static bool has_changed(const struct placement *p)
{
	uint64_t more =
	    p->spill > p->decided_for ? p->spill - p->decided_for : p->decided_for - p->spill;

	return more > p->bytes / CHANGED;
}

static void begin(const struct device *device, struct placement *p, const struct terms *terms)
{
	uint64_t now = clock_now();

	if (now < p->not_before || (p->pieces && now < p->again && !has_changed(p)))
		return;
	p->since = heat_now();
	p->is_surveyed = survey_begin(device->id.ordinal, terms->settings.steps != STEPS_OFF, now);
}

/* Ends the survey under way. was_found: it told something. */
static void end(struct placement *p, bool was_found)
{
	uint64_t now = clock_now();

	survey_end();
	p->is_surveyed = p->is_measured = false;
	p->was_surveyed = true;
	p->pause = was_found || !p->pause ? SOON : p->pause < LATER_MOST ? p->pause * 2 : p->pause;
	p->not_before = now + p->pause;
	p->again = now + AGAIN;
}

static void go_on(struct device *device, struct placement *p, const struct terms *terms,
                  uint64_t charged, uint64_t on_host)
{
	uint64_t now = clock_now();
	enum survey_state state = survey_tend(now);

	p->is_measured = state == SURVEY_TAKEN || state == SURVEY_READ;
	switch (state) {
	case SURVEY_WITHOUT_STEPS:
		if (terms->settings.placement == PLACEMENT_BALANCED)
			survey_without_steps(now);
		else
			end(p, false);
		break;
	case SURVEY_DONE:
		decide(device, p, survey_found(), terms, charged, on_host);
		end(p, true);
		break;
	case SURVEY_FAILED:
		log_info("device %d: memory is placed by heat: %s", device->index,
		         survey_failure());
		forget(p);
		end(p, false);
		break;
	default:
		break;
	}
}

/* Returns whether a survey may say anything that these settings let be done. */
static bool may_be_found(const struct terms *terms)
{
	const struct config_gpu *settings = &terms->settings;

	return settings->placement == PLACEMENT_BALANCED ||
	       (settings->placement == PLACEMENT_AUTO && settings->steps != STEPS_OFF);
}

void placement_tend(struct device *device, const struct terms *terms, uint64_t charged,
                    uint64_t on_host)
{
	struct placement *p = placement_of(device);
	uint64_t limit = terms_limit_of_movable(terms);
	bool is_wanted = may_be_found(terms) && limit && on_host;

	p->spill = must_spill(p, limit, charged, on_host);
	if (p->is_surveyed && is_wanted)
		go_on(device, p, terms, charged, on_host);
	else if (p->is_surveyed)
		end(p, false);
	else if (is_wanted)
		begin(device, p, terms);
	p->is_awaited = is_wanted && !p->was_surveyed;
	if (!may_be_found(terms))
		forget(p);
	show(device, p, terms, on_host);
}

/* SPDX-License-Identifier: MIT */
/* What is lost by fillers, and how long gaps are. */
#include "core/sharing/feedback.h"

#include "core/sharing/filler.h"

/* Looks that are farther apart say nothing of a border between them. */
#define APART_NS (FILLER_OFF_NS / 4)
/* A pair counts for 63/64 of that after each next one. */
#define FADES (63.0 / 64)
/* Fewer say nothing; and fewer than that not that too much is lost. */
#define PAIRS_LEAST     4
#define PAIRS_TO_ACCUSE 12
/*
 * Standard deviations within which a loss is said to be: many, because it is looked at again and
 * again; more where they are known by few pairs, which look alike by chance if the job's bursts
 * are longer than a window.
 */
static double deviations(double pairs)
{
	return 4 + 30 / pairs;
}

/* What is said of a job of which little is known. */
#define ERROR_MOST 10000000.0

enum { BORDERS = 4, GAPS_LEAST = 4 };

/* --- the loss --- */

static double square_root(double x)
{
	double root = x > 1 ? x : 1;

	for (int i = 0; i < 60 && x > 0; i++)
		root = (root + x / root) / 2;
	return x > 0 ? root : 0;
}

static void add_pair(struct feedback *f)
{
	double off = f->border[2] - f->border[1];
	double on = (f->border[1] - f->border[0] + f->border[3] - f->border[2]) / 2;
	double lost = off - on;

	f->pairs = f->pairs * FADES + 1;
	f->off = f->off * FADES + off;
	f->lost = f->lost * FADES + lost;
	f->lost_squared = f->lost_squared * FADES + lost * lost;
}

static bool tell(const struct feedback *f, struct feedback_loss *loss)
{
	double mean, variance, error, per_second = 1e12 / (double)FILLER_OFF_NS;

	if (f->pairs < PAIRS_LEAST || f->off <= 0)
		return false;
	mean = f->lost / f->pairs;
	variance = f->lost_squared / f->pairs - mean * mean;
	error = 1e6 * deviations(f->pairs) * square_root(variance * f->pairs) / f->off;
	if (error < 1e6 / f->off)
		error = 1e6 / f->off; /* a launch more or less */
	if (error > ERROR_MOST)
		error = ERROR_MOST;
	mean = 1e6 * f->lost / f->off;
	*loss = (struct feedback_loss){
	    .loss_ppm = (int32_t)(mean < -ERROR_MOST ? -ERROR_MOST : mean),
	    .error_ppm = (uint32_t)error,
	    .alone = (uint64_t)(f->off / f->pairs * per_second),
	    .now = (uint64_t)((f->off - f->lost) / f->pairs * per_second),
	};
	return true;
}

static uint64_t border_at(const struct feedback *f, int i)
{
	return f->off_at_ns + (uint64_t)i * FILLER_OFF_NS - FILLER_OFF_NS;
}

bool feedback_look(struct feedback *f, uint64_t now_ns, uint64_t count, uint32_t bearable_ppm,
                   struct feedback_loss *loss)
{
	uint64_t off_at = filler_off_at(now_ns);
	bool is_told = false, is_much, is_borne;

	if (f->off_at_ns != off_at) {
		f->off_at_ns = off_at;
		f->passed = 0;
		f->is_spoilt = now_ns >= border_at(f, 0) || !f->last_ns;
	}
	for (; f->passed < BORDERS && border_at(f, f->passed) <= now_ns; f->passed++) {
		uint64_t at = border_at(f, f->passed), apart = now_ns - f->last_ns;

		f->is_spoilt |= f->last_ns > at || apart > APART_NS || count < f->last;
		if (!f->is_spoilt)
			f->border[f->passed] = (double)f->last + (double)(count - f->last) *
			                                             (double)(at - f->last_ns) /
			                                             (double)(apart ? apart : 1);
		if (f->passed == BORDERS - 1 && !f->is_spoilt) {
			add_pair(f);
			is_told = tell(f, loss);
		}
	}
	f->last_ns = now_ns;
	f->last = count;
	if (!is_told)
		return false;
	is_much = loss->loss_ppm - (int64_t)loss->error_ppm > bearable_ppm;
	is_borne = loss->loss_ppm + (int64_t)loss->error_ppm < bearable_ppm;
	if (is_much && f->pairs < PAIRS_TO_ACCUSE)
		return false;
	/* Fillers take less, or more, from now on: what was seen until now says nothing of that. */
	if (is_much || is_borne)
		f->pairs = f->off = f->lost = f->lost_squared = 0;
	return true;
}

/* --- gaps --- */

void gaps_note(struct gaps *gaps, uint64_t length_ns)
{
	gaps->length_ns[gaps->count++ % GAPS_KEPT] = length_ns;
}

uint64_t gaps_expect(const struct gaps *gaps, uint64_t age_ns)
{
	uint64_t first = UINT64_MAX, second = UINT64_MAX;
	int known = gaps->count < GAPS_KEPT ? (int)gaps->count : GAPS_KEPT, longer = 0;

	for (int i = 0; i < known; i++) {
		uint64_t length = gaps->length_ns[i];

		if (length <= age_ns)
			continue;
		longer++;
		if (length < first) {
			second = first;
			first = length;
		} else if (length < second) {
			second = length;
		}
	}
	if (known < GAPS_LEAST || !longer)
		return 0;
	return longer >= GAPS_LEAST ? second : first;
}

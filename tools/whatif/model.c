/* SPDX-License-Identifier: MIT */
/* The model. Times are nanoseconds in double. */
#include "tools/whatif/model.h"

#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"
#include "tools/view/tool.h"

/* How far a link may be from what is known of it, by its source. */
static const double link_error[] = {
    [LINK_MODELLED] = 0.25, [LINK_MOVED] = 0.15, [LINK_READ] = 0.05};
/* What kernels read at least of the memory that they are given, where that was not seen. */
#define READ_LEAST 0.25
/* A limit is found to a 256th of what is held. */
enum { MODEL_PARTS = 256, MODEL_KNEE_PARTS = 64 };

/* --- what was measured --- */

/* Lists the memory that kernels use, as the placer weighs it. */
static void model_list_pieces(struct model *m)
{
	const struct survey_record *r = m->record;
	uint64_t movable = 0;

	m->piece = allocate((r->pieces + 1) * sizeof *m->piece);
	m->at = allocate((r->pieces + 1) * sizeof *m->at);
	for (size_t i = 0; i < r->pieces; i++) {
		const struct record_piece *p = &r->piece[i];
		bool joins = r->is_whole && i && p->run >= 0 && r->piece[i - 1].run == p->run;

		movable += p->bytes;
		if (p->run < 0) {
			m->unused += p->bytes;
		} else if (joins) {
			m->piece[m->pieces - 1].bytes += p->bytes;
			m->piece[m->pieces - 1].read += p->read;
		} else {
			m->at[m->pieces] = (uint32_t)i;
			m->piece[m->pieces++] = (struct weigh_piece){
			    (uint32_t)p->run, p->is_on_host, p->bytes, p->read};
		}
	}
	m->fixed = r->held > movable ? r->held - movable : 0;
}

static struct weigh_case model_case(const struct model *m)
{
	const struct survey_record *r = m->record;

	return (struct weigh_case){.kernel = r->kernel,
	                           .kernels = r->kernels,
	                           .use = r->use,
	                           .uses = r->uses,
	                           .piece = m->piece,
	                           .pieces = m->pieces,
	                           .runs = r->runs,
	                           .is_shared = r->is_shared};
}

/* Returns whether both halves launched the same: then one step is a half. */
static bool has_two_halves(const struct survey_record *r)
{
	size_t half = r->kernels / 2;

	if (r->steps != 2 || r->kernels % 2)
		return false;
	for (size_t k = 0; k < half; k++)
		if (r->kernel[k].key != r->kernel[half + k].key)
			return false;
	return true;
}

static int by_number(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the time in which at least one kernel ran. */
static double model_union(const struct survey_record *r)
{
	double(*span)[2] = allocate((r->kernels + 1) * sizeof *span), sum = 0, end = 0;

	for (size_t k = 0; k < r->kernels; k++) {
		span[k][0] = (double)r->kernel[k].at_ns;
		span[k][1] = span[k][0] + (double)r->kernel[k].ns;
	}
	qsort(span, r->kernels, sizeof *span, by_number);
	for (size_t k = 0; k < r->kernels; k++) {
		double from = higher(span[k][0], end);

		sum += higher(span[k][1] - from, 0);
		end = higher(end, span[k][1]);
	}
	free(span);
	return sum;
}

/*
 * Returns how many steps of the program were measured. What comes again exactly may be several of
 * its steps, as where each has other data: then their number is that of the launches.
 */
static double count_steps(const struct survey_record *r)
{
	double launches = r->seen_steps ? (double)r->seen_launches / (double)r->seen_steps : 0;
	double found = launches > 0 ? (double)r->kernels / r->steps / launches : 1;
	double whole = (double)(uint64_t)(found + 0.5);

	if (!r->steps)
		return 1;
	return r->steps * (whole >= 2 ? whole : 1);
}

/* Measures a step, and what part of it kernels have. */
static void model_measure(struct model *m)
{
	const struct survey_record *r = m->record;
	const struct weigh_kernel *last = &r->kernel[r->kernels - 1];
	double sum = 0, together;
	size_t half = r->kernels / 2;

	m->steps = count_steps(r);

	for (size_t k = 0; k < r->kernels; k++)
		sum += (double)r->kernel[k].ns;
	together = last->at_ns ? model_union(r) : sum;
	m->overlap = sum > 0 ? lower(together / sum, 1) : 1;
	m->kernels_ns = sum / m->steps * m->overlap;
	m->step_ns = has_two_halves(r) ? (double)r->kernel[half].at_ns * 2 / m->steps
	                               : (double)(last->at_ns + last->ns) / m->steps;
	m->step_ns = higher(m->step_ns, m->kernels_ns);
}

static void model_learn(struct model *m)
{
	const struct survey_record *r = m->record;
	struct weigh_case given = model_case(m);
	double ns_of_byte = 0;

	double unknown = 0, all = 0;

	for (size_t i = 0; i < m->pieces; i++)
		m->has_read |= m->piece[i].is_on_host;
	m->known = allocate((r->kernels + 1) * sizeof *m->known);
	if (!weigh_learn(&given, m->known, &ns_of_byte))
		fail("out of memory");
	for (size_t k = 0; k < r->kernels; k++) {
		unknown += m->known[k].least > 0 ? 0 : (double)r->kernel[k].ns;
		all += (double)r->kernel[k].ns;
	}
	m->unknown = all > 0 ? unknown / all : 0;
	m->source = ns_of_byte > 0 ? LINK_READ : r->to_device ? LINK_MOVED : LINK_MODELLED;
	m->link = m->source == LINK_READ                          ? 1e9 / ns_of_byte
	          : m->source == LINK_MOVED                       ? (double)r->to_device
	          : strcmp(r->name, "Spillway software GPU") == 0 ? MODEL_SOFTGPU_LINK
	                                                          : MODEL_LINK;
}

/*
 * Returns whether the launch is a program in itself, as a graph of a whole step. Its kernels
 * read one after the other, so that little of it hides behind the computing of them all.
 */
static bool is_sequence(const struct model *m, size_t k)
{
	const struct weigh_kernel *kernel = &m->record->kernel[k];

	return kernel->uses > 1 && kernel->uses * 2 >= m->record->runs &&
	       (double)kernel->ns * 2 > m->step_ns;
}

void model_make(struct model *model, const struct survey_record *record)
{
	*model = (struct model){.record = record};
	model_list_pieces(model);
	model_measure(model);
	model_learn(model);
	for (size_t k = 0; k < record->kernels; k++) {
		model->least_ns += model->known[k].least;
		model->has_graph |= is_sequence(model, k);
	}
	model->least_ns =
	    model->step_ns - model->kernels_ns + model->least_ns * model->overlap / model->steps;
}

void model_free(struct model *model)
{
	free(model->known);
	free(model->piece);
	free(model->at);
	*model = (struct model){0};
}

uint64_t model_held(const struct model *model)
{
	return model->record->held;
}

/* --- where memory is --- */

/* What a prediction is made with. */
struct guess {
	const struct model *m;
	struct weigh_case given;
	struct weigh_piece *piece;
	struct weigh_answer answer;
	uint64_t leaves; /* bytes that have to be on the host, of all memory */
};

static uint64_t bytes_on_host(const struct survey_record *r)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->pieces; i++)
		bytes += r->piece[i].is_on_host ? r->piece[i].bytes : 0;
	return bytes;
}

/* Has memory lie where it is allocated: on the device until the limit is reached. */
static void place_first(struct guess *g)
{
	const struct survey_record *r = g->m->record;
	uint64_t movable = r->held - g->m->fixed;
	uint64_t room = movable > g->leaves ? movable - g->leaves : 0;
	size_t next = 0;

	for (size_t i = 0; i < r->pieces;) {
		size_t end = i + 1;
		uint64_t bytes = r->piece[i].bytes;
		bool fits;

		while (r->is_whole && end < r->pieces && r->piece[i].run >= 0 &&
		       r->piece[end].run == r->piece[i].run)
			bytes += r->piece[end++].bytes;
		fits = bytes <= room;
		room -= fits ? bytes : 0;
		if (r->piece[i].run >= 0)
			g->piece[next++].is_on_host = !fits;
		i = end;
	}
}

/* Returns whether as much was on the host while it was measured: then it lies where it lay. */
static bool is_as_recorded(const struct guess *g)
{
	uint64_t was = bytes_on_host(g->m->record);
	uint64_t piece = g->m->pieces ? g->m->piece[0].bytes : 0;

	return was && (was > g->leaves ? was - g->leaves : g->leaves - was) <= piece;
}

static void guess_begin(struct guess *g, const struct model *m, uint64_t limit)
{
	size_t size = (m->pieces + 1) * sizeof *g->piece;
	uint64_t held = m->record->held;

	*g = (struct guess){.m = m, .given = model_case(m)};
	g->leaves = held > limit ? held - limit : 0;
	g->piece = allocate(size);
	memcpy(g->piece, m->piece, size);
	g->given.piece = g->piece;
	g->given.spill = g->leaves > m->unused ? g->leaves - m->unused : 0;
	g->answer.order = allocate((m->pieces + 1) * sizeof *g->answer.order);
	if (!is_as_recorded(g))
		place_first(g);
}

static void guess_end(struct guess *g)
{
	free(g->piece);
	free(g->answer.order);
}

static void guess_weigh(struct guess *g, double link)
{
	if (!weigh_by(&g->given, g->m->known, 1e9 / link, &g->answer))
		fail("out of memory");
}

/* What kernels take where memory is, and what of it they read from the host. */
struct guess_sum {
	double ns, bytes;
};

/* How kernels meet the link: as it is supposed, and at best and at worst. */
struct guess_how {
	double link;
	double read;    /* of what a kernel is taken to read */
	bool is_hidden; /* also behind a whole graph's computing */
};

static struct guess_sum guess_add_up(const struct guess *g, const struct guess_how *how)
{
	const struct survey_record *r = g->m->record;
	double *of_run = allocate((r->runs + 1) * sizeof *of_run);
	struct guess_sum sum = {0};

	for (size_t i = 0; i < g->m->pieces; i++)
		if (g->piece[i].is_on_host)
			of_run[g->piece[i].run] += (double)g->piece[i].read;
	for (size_t k = 0; k < r->kernels; k++) {
		double bytes = 0, ns, least = g->m->known[k].least;

		for (uint32_t i = 0; i < r->kernel[k].uses; i++)
			bytes += of_run[r->use[r->kernel[k].first + i]];
		bytes *= g->m->known[k].factor * how->read;
		ns = bytes * 1e9 / how->link;
		sum.bytes += bytes;
		sum.ns += is_sequence(g->m, k) && !how->is_hidden && !g->m->has_read
		              ? least + ns
		              : higher(least, ns);
	}
	free(of_run);
	sum.bytes /= g->m->steps;
	return sum;
}

static uint64_t host_of(const struct guess *g)
{
	uint64_t bytes = g->leaves < g->m->unused ? g->leaves : g->m->unused;

	for (size_t i = 0; i < g->m->pieces; i++)
		bytes += g->piece[i].is_on_host ? g->piece[i].bytes : 0;
	return bytes;
}

/* Has memory lie where the placer moves it. */
static void place_best(struct guess *g)
{
	for (size_t i = 0; i < g->m->pieces; i++)
		g->piece[i].is_on_host = false;
	for (size_t i = 0; i < g->answer.spilled; i++)
		g->piece[g->answer.order[i]].is_on_host = true;
}

/* --- times --- */

/* Returns how long a step takes in which kernels take so long. */
static double step_with(const struct model *m, double kernels, double share, double *busy_ns)
{
	double busy = kernels * m->overlap / m->steps;
	double step = m->step_ns - m->kernels_ns + busy;

	*busy_ns = busy;
	return share < 1 ? higher(step, busy / share) : step;
}

void model_ask(const struct model *model, const struct model_question *question,
               struct model_answer *answer)
{
	double link = question->link > 0 ? question->link : model->link, busy, unused;
	double share = question->share > 0 ? lower(question->share, 1) : 1;
	double error = question->link > 0 ? link_error[LINK_READ] : link_error[model->source];
	struct guess_how at_best, at_worst;
	struct guess_sum sum;
	struct guess g;

	*answer = (struct model_answer){
	    .limit = question->limit,
	    .link = link,
	    .share = share,
	    .is_possible = question->limit >= model->fixed,
	};
	guess_begin(&g, model, question->limit);
	guess_weigh(&g, link);
	answer->is_moved = weigh_is_worth(&g.answer);
	/* Where nothing was on the host it is not known what kernels read of their memory. */
	at_worst = (struct guess_how){link * (1 - error), 1, false};
	answer->high_ns = step_with(model, guess_add_up(&g, &at_worst).ns, share, &unused);
	if (answer->is_moved)
		place_best(&g);
	answer->host = host_of(&g);
	sum = guess_add_up(&g, &(struct guess_how){link, 1, false});
	answer->bus = sum.bytes;
	answer->step_ns = step_with(model, sum.ns, share, &busy);
	place_best(&g);
	at_best = (struct guess_how){link * (1 + error), model->has_read ? 1 : READ_LEAST, true};
	answer->low_ns = step_with(model, guess_add_up(&g, &at_best).ns, share, &unused);
	answer->low_ns = lower(answer->low_ns, answer->step_ns);
	answer->high_ns = higher(answer->high_ns, answer->step_ns);
	answer->busy = answer->step_ns > 0 ? busy / answer->step_ns : 0;
	answer->times = model->least_ns > 0 ? answer->step_ns / model->least_ns : 1;
	guess_end(&g);
}

/* --- limits --- */

static double times_at(const struct model *model, const struct model_question *like, uint64_t limit)
{
	struct model_question question = *like;
	struct model_answer answer;

	question.limit = limit;
	model_ask(model, &question, &answer);
	return answer.times;
}

/* Returns the limit of this part of what may be on the host. */
static uint64_t limit_of_part(const struct model *model, int part, int parts)
{
	uint64_t held = model->record->held, fixed = model->fixed;

	return fixed + (uint64_t)((double)(held - fixed) * part / parts);
}

uint64_t model_smallest(const struct model *model, const struct model_question *like,
                        double slowdown)
{
	double most = times_at(model, like, model->record->held);
	int low = 0, high = MODEL_PARTS; /* high is within the slowdown */

	most = higher(most, 1) * (1 + slowdown) + 1e-9;
	while (low < high) {
		int middle = (low + high) / 2;

		if (times_at(model, like, limit_of_part(model, middle, MODEL_PARTS)) <= most)
			high = middle;
		else
			low = middle + 1;
	}
	return limit_of_part(model, high, MODEL_PARTS);
}

/* The point that is farthest below the line from one end of the curve to the other. */
uint64_t model_knee(const struct model *model, const struct model_question *like)
{
	double first = times_at(model, like, model->fixed);
	double last = times_at(model, like, model->record->held), farthest = 0;
	int knee = MODEL_KNEE_PARTS;

	for (int i = 1; i < MODEL_KNEE_PARTS && first > last; i++) {
		double at = times_at(model, like, limit_of_part(model, i, MODEL_KNEE_PARTS));
		double line = first + (last - first) * i / MODEL_KNEE_PARTS;

		if (line - at > farthest) {
			farthest = line - at;
			knee = i;
		}
	}
	return limit_of_part(model, knee, MODEL_KNEE_PARTS);
}

/* --- two jobs --- */

/* Stretches a step so that its kernels have this part of the GPU's time. */
static void stretch(struct model_answer *answer, double part)
{
	double times = answer->busy > part ? answer->busy / part : 1;

	answer->step_ns *= times;
	answer->low_ns *= times;
	answer->high_ns *= times;
	answer->times *= times;
	answer->busy /= times;
}

void model_beside(struct model_answer *one, struct model_answer *other)
{
	double a = one->busy, b = other->busy;

	if (a + b <= 1)
		return;
	stretch(one, higher(0.5, 1 - b));
	stretch(other, higher(0.5, 1 - a));
}

/* SPDX-License-Identifier: MIT */
/* Weighing. Rules: by the mover thread alone; a pure function. */
#include "core/modules/placement/weigh.h"

#include <stdlib.h>

/* Times that differ by less are the same. */
#define SAME 1.1
/* The part of hidden traffic that counts as cost. */
#define PRICE_OF_SLACK 0.1
/* With `auto` memory moves for a gain of such a part of the host's cost, and of a step. */
#define GAIN_OF_LOSS 0.05
#define GAIN_OF_STEP 0.01
/* A kernel reads a part of its memory, or reads it again: so far that is believed. */
#define LEAST_READ (1.0 / 64)
#define MOST_READ  64.0

/* A kernel as it is reckoned with. */
struct load {
	double least;   /* ns it takes with nothing on the host */
	bool is_seen;   /* a launch did not wait for the link: else `least` is that of others */
	double factor;  /* what it reads, to what its memory is */
	double ns;      /* of its traffic with the host so far */
	uint64_t bytes; /* on the host now that it may read */
};

/* The facts of the launches with one key. */
struct alike {
	uint64_t key;
	uint32_t kernel;    /* before they are put together */
	double fastest;     /* that any took; later, that any took that did not wait for the link */
	double least;       /* the least that any took */
	double free_ns;     /* that those took that have nothing on the host, */
	size_t free;        /* of which there are so many */
	double ns, link_ns; /* of those that did: their time, and their time by the link alone */
};

struct work {
	const struct weigh_case *given;
	struct load *load;
	struct alike *alike;    /* by key */
	uint32_t *alike_of;     /* of each kernel */
	uint32_t *user, *users; /* of each run: its kernels, from users[run] to users[run + 1] */
	struct place {
		double price;
		uint32_t piece;
	} * heap;
	size_t alikes, waiting;
	double ns_of_byte;
};

/* --- kernels and their memory --- */

static void weigh_list_users(const struct work *w)
{
	const struct weigh_case *g = w->given;

	for (size_t i = 0; i < g->uses; i++)
		w->users[g->use[i] + 1]++;
	for (uint32_t run = 0; run < g->runs; run++)
		w->users[run + 1] += w->users[run];
	/* Each list is filled from its end, which thereby becomes its beginning. */
	for (size_t k = g->kernels; k-- > 0;) {
		const struct weigh_kernel *kernel = &g->kernel[k];

		for (uint32_t i = 0; i < kernel->uses; i++)
			w->user[--w->users[g->use[kernel->first + i] + 1]] = (uint32_t)k;
	}
}

/* Returns where the list of a run's kernels begins; weigh_list_users() has moved each by one. */
static const uint32_t *users_of(const struct work *w, uint32_t run, uint32_t *count)
{
	uint32_t first = w->users[run + 1];
	uint32_t end = run + 1 < w->given->runs ? w->users[run + 2] : (uint32_t)w->given->uses;

	*count = end - first;
	return w->user + first;
}

static void count_on_host(const struct work *w)
{
	for (size_t i = 0; i < w->given->pieces; i++) {
		const struct weigh_piece *p = &w->given->piece[i];
		uint32_t count;
		const uint32_t *user = users_of(w, p->run, &count);

		for (uint32_t u = 0; p->is_on_host && u < count; u++)
			w->load[user[u]].bytes += p->read;
	}
}

/* --- computing and reading of kernels --- */

static int by_key(const void *a, const void *b)
{
	const struct alike *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static void group_alike(struct work *w)
{
	const struct weigh_case *g = w->given;
	size_t count = 0;

	for (uint32_t k = 0; k < g->kernels; k++)
		w->alike[k] = (struct alike){.key = g->kernel[k].key, .kernel = k};
	qsort(w->alike, g->kernels, sizeof(*w->alike), by_key);
	for (size_t i = 0; i < g->kernels; i++) {
		uint32_t kernel = w->alike[i].kernel;

		if (!i || w->alike[i].key != w->alike[count - 1].key)
			w->alike[count++] = w->alike[i];
		w->alike_of[kernel] = (uint32_t)(count - 1);
	}
	w->alikes = count;
}

/*
 * Learns how fast launches are that are alike, of those which the link does not explain. A kernel
 * that computes for so long never takes less: where others took more, the machine had other work.
 * Where other programs' kernels lie between, the fastest was lucky: those that have nothing on the
 * host took so long on average.
 */
static void learn_fastest(const struct work *w)
{
	for (size_t i = 0; i < w->alikes; i++) {
		w->alike[i].fastest = w->alike[i].least = w->alike[i].free_ns = 0;
		w->alike[i].free = 0;
	}
	for (size_t k = 0; k < w->given->kernels; k++) {
		struct alike *a = &w->alike[w->alike_of[k]];
		double ns = (double)w->given->kernel[k].ns;
		double link_ns = (double)w->load[k].bytes * w->ns_of_byte;

		if (!w->load[k].bytes) {
			a->free_ns += ns;
			a->free++;
		}
		if (a->least <= 0 || ns < a->least)
			a->least = ns;
		if (ns > SAME * link_ns && (a->fastest <= 0 || ns < a->fastest))
			a->fastest = ns;
	}
	for (size_t i = 0; i < w->alikes; i++) {
		struct alike *a = &w->alike[i];

		if (w->given->is_shared && a->free)
			a->fastest = a->free_ns / (double)a->free;
		else if (a->fastest > SAME * a->least)
			a->fastest = 0;
	}
}

/* Returns whether this launch waited for the link. */
static bool is_held_up(const struct work *w, size_t k)
{
	double fastest = w->alike[w->alike_of[k]].fastest;

	return w->load[k].bytes && (double)w->given->kernel[k].ns > SAME * fastest;
}

struct rate {
	double ns_of_byte, ns;
};

static int by_rate(const void *a, const void *b)
{
	const struct rate *x = a, *y = b;

	return x->ns_of_byte < y->ns_of_byte ? -1 : x->ns_of_byte > y->ns_of_byte;
}

/* Lists how fast the launches got their memory that waited for it, surely or perhaps. */
static size_t list_rates(const struct work *w, bool surely, struct rate *rate, double *all_ns)
{
	size_t count = 0;

	*all_ns = 0;
	for (size_t k = 0; k < w->given->kernels; k++) {
		double ns = (double)w->given->kernel[k].ns, bytes = (double)w->load[k].bytes;
		bool perhaps = bytes > 0 && ns > 0 && !w->alike[w->alike_of[k]].free;

		if (!is_held_up(w, k) && (surely || !perhaps))
			continue;
		rate[count++] = (struct rate){ns / bytes, ns};
		*all_ns += ns;
	}
	return count;
}

/* Of the time of launches that may have waited, so much is of those that surely did. */
#define SURE_ENOUGH 0.1

/*
 * Learns how fast the link is: the median, by time, of the launches that waited for it, because
 * others like them were faster. Where there are none, or a few that another cause has slowed: of
 * those that may have waited. Those that did took the most time. Returns false without memory.
 */
static bool learn_link(struct work *w)
{
	struct rate *rate = calloc(w->given->kernels + 1, sizeof(*rate));
	double perhaps, all, below = 0;
	size_t count;

	if (!rate)
		return false;
	list_rates(w, false, rate, &perhaps);
	count = list_rates(w, true, rate, &all);
	if (all <= SURE_ENOUGH * perhaps)
		count = list_rates(w, false, rate, &all);
	qsort(rate, count, sizeof(*rate), by_rate);
	for (size_t i = 0; i < count && below * 2 < all; i++) {
		w->ns_of_byte = rate[i].ns_of_byte;
		below += rate[i].ns;
	}
	free(rate);
	return true;
}

static double within(double value, double least, double most)
{
	return value < least ? least : value > most ? most : value;
}

/*
 * Estimates the time of each kernel with nothing on the host, and how much it reads. One that was
 * never seen without the host is taken to compute as long as the others do.
 */
static void judge_kernels(struct work *w)
{
	double seen_ns = 0, typical;
	size_t seen = 0;

	for (size_t k = 0; k < w->given->kernels; k++) {
		double ns = (double)w->given->kernel[k].ns;
		struct alike *a = &w->alike[w->alike_of[k]];

		if (is_held_up(w, k)) {
			a->ns += ns;
			a->link_ns += (double)w->load[k].bytes * w->ns_of_byte;
		} else {
			seen_ns += ns;
			seen++;
		}
	}
	typical = seen ? seen_ns / (double)seen : 0;
	for (size_t k = 0; k < w->given->kernels; k++) {
		const struct alike *a = &w->alike[w->alike_of[k]];
		double ns = (double)w->given->kernel[k].ns;
		double otherwise = a->fastest > 0 ? a->fastest : typical;
		struct load *l = &w->load[k];
		double link_ns = (double)l->bytes * w->ns_of_byte;

		l->factor = a->link_ns > 0 ? within(a->ns / a->link_ns, LEAST_READ, MOST_READ) : 1;
		l->least = otherwise;
		l->is_seen = a->fastest > 0 || !is_held_up(w, k);
		if (w->given->is_shared)
			continue;
		if (!is_held_up(w, k) || ns < otherwise)
			l->least = ns;
		/* Reading that did not hold it up took no longer than it. */
		if (!is_held_up(w, k) && link_ns * l->factor > ns)
			l->factor = ns > 0 ? ns / link_ns : l->factor;
		if (is_held_up(w, k))
			l->factor = within(ns / link_ns, LEAST_READ, MOST_READ);
	}
}

/* --- choosing --- */

static double longer(double a, double b)
{
	return a > b ? a : b;
}

static double link_ns(const struct work *w, const struct load *load, uint64_t bytes)
{
	return (double)bytes * w->ns_of_byte * load->factor;
}

/* Returns the cost per byte if this piece goes to the host, too. */
static double price(const struct work *w, uint32_t piece)
{
	const struct weigh_piece *p = &w->given->piece[piece];
	uint32_t count;
	const uint32_t *user = users_of(w, p->run, &count);
	double sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct load *l = &w->load[user[i]];
		double more = link_ns(w, l, p->read);

		sum += longer(l->least, l->ns + more) - longer(l->least, l->ns) +
		       PRICE_OF_SLACK * more;
	}
	return sum / (double)p->bytes;
}

static bool weigh_goes_before(const struct place *a, const struct place *b)
{
	return a->price < b->price || (a->price <= b->price && a->piece < b->piece);
}

static void weigh_sift_down(struct work *w, size_t at)
{
	struct place place = w->heap[at];

	for (;;) {
		size_t below = 2 * at + 1;

		if (below + 1 < w->waiting &&
		    weigh_goes_before(&w->heap[below + 1], &w->heap[below]))
			below++;
		if (below >= w->waiting || !weigh_goes_before(&w->heap[below], &place))
			break;
		w->heap[at] = w->heap[below];
		at = below;
	}
	w->heap[at] = place;
}

static void send_to_host(const struct work *w, uint32_t piece)
{
	const struct weigh_piece *p = &w->given->piece[piece];
	uint32_t count;
	const uint32_t *user = users_of(w, p->run, &count);

	for (uint32_t i = 0; i < count; i++)
		w->load[user[i]].ns += link_ns(w, &w->load[user[i]], p->read);
}

static double sum_of_loads(const struct work *w)
{
	double sum = 0;

	for (size_t k = 0; k < w->given->kernels; k++)
		sum += longer(w->load[k].least, w->load[k].ns);
	return sum;
}

/* Prices only rise, so the cheapest that is still as cheap as it was is the cheapest. */
static uint32_t take_cheapest(struct work *w)
{
	uint32_t piece;

	for (;;) {
		struct place *first = &w->heap[0], was = *first;

		first->price = price(w, first->piece);
		if (first->price <= was.price)
			break;
		weigh_sift_down(w, 0);
		if (w->heap[0].piece == was.piece)
			break;
	}
	piece = w->heap[0].piece;
	w->heap[0] = w->heap[--w->waiting];
	if (w->waiting)
		weigh_sift_down(w, 0);
	return piece;
}

static void weigh_choose(struct work *w, struct weigh_answer *answer)
{
	const struct weigh_case *g = w->given;
	uint64_t bytes = 0;

	for (size_t k = 0; k < g->kernels; k++)
		w->load[k].ns = 0;
	for (uint32_t i = 0; i < g->pieces; i++)
		w->heap[i] = (struct place){price(w, i), i};
	w->waiting = g->pieces;
	for (size_t i = w->waiting / 2; i-- > 0;)
		weigh_sift_down(w, i);
	answer->spilled = 0;
	answer->then = sum_of_loads(w);
	for (size_t i = 0; i < g->pieces; i++) {
		uint32_t piece = take_cheapest(w);

		answer->order[i] = piece;
		send_to_host(w, piece);
		if (bytes >= g->spill)
			continue;
		bytes += g->piece[piece].bytes;
		answer->spilled = i + 1;
		if (bytes >= g->spill)
			answer->then = sum_of_loads(w);
	}
}

/* --- altogether --- */

static void reckon(struct work *w, struct weigh_answer *answer)
{
	const struct weigh_case *g = w->given;

	answer->least = sum_of_loads(w);
	for (uint32_t i = 0; i < g->pieces; i++) {
		if (g->piece[i].is_on_host)
			send_to_host(w, i);
	}
	answer->now = sum_of_loads(w);
	answer->unknown = 0;
	for (size_t k = 0; k < g->kernels; k++)
		answer->unknown += w->load[k].is_seen && w->load[k].least > 0 ? 0 : w->load[k].ns;
}

static bool weigh_make_room(struct work *w)
{
	const struct weigh_case *g = w->given;

	w->load = calloc(g->kernels + 1, sizeof(*w->load));
	w->alike = calloc(g->kernels + 1, sizeof(*w->alike));
	w->alike_of = calloc(g->kernels + 1, sizeof(*w->alike_of));
	w->user = calloc(g->uses + 1, sizeof(*w->user));
	w->users = calloc((size_t)g->runs + 2, sizeof(*w->users));
	w->heap = calloc(g->pieces + 1, sizeof(*w->heap));
	return w->load && w->alike && w->alike_of && w->user && w->users && w->heap;
}

static void free_room(struct work *w)
{
	free(w->load);
	free(w->alike);
	free(w->alike_of);
	free(w->user);
	free(w->users);
	free(w->heap);
}

bool weigh_learn(const struct weigh_case *given, struct weigh_known *known, double *ns_of_byte)
{
	struct work w = {.given = given};
	bool is_done = weigh_make_room(&w);

	if (is_done) {
		weigh_list_users(&w);
		count_on_host(&w);
		group_alike(&w);
		learn_fastest(&w);
		is_done = learn_link(&w);
	}
	if (is_done) {
		*ns_of_byte = w.ns_of_byte;
		/* Where nothing waited for the link, its traffic costs its bytes. */
		if (w.ns_of_byte <= 0)
			w.ns_of_byte = 1;
		learn_fastest(&w);
		judge_kernels(&w);
	}
	for (size_t k = 0; is_done && k < given->kernels; k++)
		known[k] =
		    (struct weigh_known){w.load[k].least, w.load[k].factor, w.load[k].is_seen};
	free_room(&w);
	return is_done;
}

/* Decides by these facts, for this link. Returns false without memory for it. */
static bool weigh_by(const struct weigh_case *given, const struct weigh_known *known,
                     double ns_of_byte, struct weigh_answer *answer)
{
	struct work w = {.given = given, .ns_of_byte = ns_of_byte};
	bool is_done = weigh_make_room(&w);

	if (is_done) {
		weigh_list_users(&w);
		for (size_t k = 0; k < given->kernels; k++)
			w.load[k] = (struct load){.least = known[k].least,
			                          .factor = known[k].factor,
			                          .is_seen = known[k].is_seen};
		reckon(&w, answer);
		weigh_choose(&w, answer);
	}
	free_room(&w);
	return is_done;
}

bool weigh_up(const struct weigh_case *given, struct weigh_answer *answer)
{
	struct weigh_known *known = calloc(given->kernels + 1, sizeof(*known));
	double ns_of_byte = 0;
	bool is_done = known && weigh_learn(given, known, &ns_of_byte) &&
	               weigh_by(given, known, ns_of_byte > 0 ? ns_of_byte : 1, answer);

	free(known);
	return is_done;
}

bool weigh_is_worth(const struct weigh_answer *answer)
{
	double gain = answer->now - answer->then, loss = answer->now - answer->least;

	return gain >= GAIN_OF_LOSS * loss && gain >= GAIN_OF_STEP * answer->now && gain > 0;
}

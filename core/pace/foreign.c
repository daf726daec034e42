/* SPDX-License-Identifier: MIT */
/* The estimate. Rules: runs inside the user's process, on the helper thread. */
#include "core/pace/foreign.h"

#include <stddef.h>

#define SECOND_NS   UINT64_C(1000000000)
#define WINDOW_NS   (2 * SECOND_NS) /* the time of a verdict */
#define LEAST_NS    (1 * SECOND_NS) /* less says nothing: NVML's samples are as long */
#define LAG_NS      (SECOND_NS / 2) /* and tell of the middle of the second before */
#define KNOWN_NS    (3 * SECOND_NS) /* for so long NVML reports a process that has stopped */
#define FULL_SHARE  100000          /* thousandths of a percent */
#define LEAST_OWN   50              /* thousandths: of twenty tenants and more nothing is known */
#define NEAR_WHOLE  970             /* thousandths: nearer than NVML can tell */
#define LEAST_WANTS 100             /* thousandths: likewise */

enum { MOST_FOREIGNERS = 20 };

bool (*foreign_ask)(const struct config_device *device, struct foreign_use *use);

static const struct foreign_verdict all_ours = {FOREIGN_WHOLE, false};

/* Begins anew. The last verdict holds until there is a new one. */
static void foreign_begin(struct foreign *foreign, const struct foreign_look *look)
{
	struct foreign_verdict verdict = foreign->verdict.thousandths ? foreign->verdict : all_ours;

	*foreign = (struct foreign){.counted_ns = look->counted_ns, .verdict = verdict};
}

static void foreign_add(struct foreign *foreign, const struct foreign_look *look,
                        uint64_t measured_ns)
{
	unsigned int i = foreign->looks++ % FOREIGN_LOOKS;

	foreign->look[i].time_ns = look->time_ns;
	foreign->look[i].measured_ns = measured_ns;
	foreign->look[i].use = look->use;
	foreign->look[i].known = look->known;
	foreign->look[i].known_share = look->known_share;
	foreign->counted_ns = look->counted_ns;
}

/* Sums over the window: times in ns, uses as the time for which they held, in ns. */
struct sums {
	uint64_t time, busy, own, device, known,
	    foreigners;  /* the last: for which there were any */
	uint64_t others; /* their number, weighted by time */
	bool by_process, by_totals, is_steady;
};

static uint64_t foreign_part(uint64_t ns, uint64_t of, uint64_t whole)
{
	return ns * (of < whole ? of : whole) / whole;
}

static uint64_t foreign_time_of(const struct foreign *foreign, uint64_t look)
{
	return foreign->look[look % FOREIGN_LOOKS].time_ns;
}

/* Returns the last look at that time or before; else the oldest there is. */
static uint64_t foreign_look_at(const struct foreign *foreign, uint64_t time_ns)
{
	uint64_t look = foreign->looks - 1,
	         oldest = look < FOREIGN_LOOKS ? 0 : look - FOREIGN_LOOKS + 1;

	while (look > oldest && foreign_time_of(foreign, look) > time_ns)
		look--;
	return look;
}

/* Returns the busy time that was measured between two looks. */
static uint64_t busy_between(const struct foreign *foreign, uint64_t first, uint64_t last)
{
	uint64_t time = foreign_time_of(foreign, last) - foreign_time_of(foreign, first);
	uint64_t busy = foreign->look[last % FOREIGN_LOOKS].measured_ns -
	                foreign->look[first % FOREIGN_LOOKS].measured_ns;

	return busy < time ? busy : time; /* more: collected late */
}

static void add_use(struct sums *sums, const struct foreign *foreign, uint64_t look)
{
	unsigned int at = look % FOREIGN_LOOKS;
	const struct foreign_use *use = &foreign->look[at].use;
	uint64_t ns = foreign_time_of(foreign, look) - foreign_time_of(foreign, look - 1);
	int64_t foreigners = (int64_t)use->others - foreign->look[at].known;

	sums->time += ns;
	sums->by_process &= use->own >= 0 && use->others >= 0;
	sums->by_totals &= use->device >= 0;
	sums->own += use->own > 0 ? foreign_part(ns, (uint64_t)use->own, 100) : 0;
	sums->device += use->device > 0 ? foreign_part(ns, (uint64_t)use->device, 100) : 0;
	sums->known += foreign_part(ns, foreign->look[at].known_share, FULL_SHARE);
	if (foreigners <= 0)
		return;
	sums->foreigners += ns;
	sums->others +=
	    ns * (uint64_t)(foreigners < MOST_FOREIGNERS ? foreigners : MOST_FOREIGNERS);
}

static void foreign_sum_up(const struct foreign *foreign, struct sums *sums)
{
	uint64_t last = foreign->looks - 1, end = foreign_time_of(foreign, last);
	uint64_t first = foreign_look_at(foreign, end > WINDOW_NS ? end - WINDOW_NS : 0);
	uint64_t began = foreign_time_of(foreign, first), lag = began > LAG_NS ? LAG_NS : 0;
	uint64_t from = foreign_look_at(foreign, began - lag),
	         to = foreign_look_at(foreign, end - lag);
	uint64_t half = foreign_look_at(foreign, began - lag + (end - began) / 2), early, late;

	*sums = (struct sums){.by_process = true, .by_totals = true};
	for (uint64_t look = first + 1; look <= last; look++)
		add_use(sums, foreign, look);
	sums->busy = busy_between(foreign, from, to);
	if (foreign_time_of(foreign, to) > foreign_time_of(foreign, from))
		sums->busy =
		    (uint64_t)((unsigned __int128)sums->busy * sums->time /
		               (foreign_time_of(foreign, to) - foreign_time_of(foreign, from)));
	early = busy_between(foreign, from, half);
	late = busy_between(foreign, half, to);
	sums->is_steady =
	    early <= 3 * late && late <= 3 * early && busy_between(foreign, last - 1, last) > 0;
}

static struct foreign_verdict estimate(uint64_t own, uint64_t whole)
{
	uint64_t thousandths = own * FOREIGN_WHOLE / whole;

	if (thousandths >= NEAR_WHOLE)
		return all_ours;
	if (thousandths < LEAST_OWN)
		thousandths = LEAST_OWN;
	return (struct foreign_verdict){(uint32_t)thousandths, true};
}

static struct foreign_verdict judge_by_totals(const struct sums *sums,
                                              const struct foreign_verdict *before)
{
	uint64_t idle = sums->time - sums->busy, ours = sums->busy + sums->known;
	uint64_t theirs = sums->device > ours ? sums->device - ours : 0, many, wants;

	if (idle < sums->time / 20) /* they are not seen to work alone */
		return *before;
	wants = theirs < idle ? theirs * FOREIGN_WHOLE / idle : FOREIGN_WHOLE;
	if (wants < LEAST_WANTS)
		return all_ours;
	many =
	    sums->others > sums->time ? sums->others * FOREIGN_WHOLE / sums->time : FOREIGN_WHOLE;
	return estimate(FOREIGN_WHOLE, FOREIGN_WHOLE + wants * many / FOREIGN_WHOLE * 3 / 4);
}

/* Returns whether a program ran that NVML does not show: a container sees its own processes. */
static bool is_unexplained(const struct sums *sums)
{
	return sums->by_totals && sums->device > sums->own + sums->known + sums->time / 20;
}

static struct foreign_verdict foreign_judge_sums(const struct sums *sums,
                                                 const struct foreign_verdict *before)
{
	/*
	 * NVML's figures are of other times, too: while the program begins or ends to work they do
	 * not fit.
	 */
	if (sums->time < LEAST_NS || sums->busy < sums->time / 50 || !sums->is_steady)
		return *before;
	if (sums->by_process) {
		if (sums->foreigners < sums->time / 2 && !is_unexplained(sums))
			return all_ours;
		/* Unless the number that NVML has for us is another process's. */
		if (sums->own >= sums->busy / 20)
			return estimate(sums->own, sums->busy);
	}
	return sums->by_totals ? judge_by_totals(sums, before) : all_ours;
}

/*
 * Judges by the looks since the beginning, and by nothing else. After a gap of seconds, or where
 * time stands still, the last verdict holds until there is enough to judge by.
 */
static struct foreign_verdict foreign_judge(struct foreign *foreign,
                                            const struct foreign_look *look)
{
	uint64_t last = (foreign->looks - 1) % FOREIGN_LOOKS, measured, counted;
	struct sums sums;

	if (foreign->looks == 0 || look->time_ns <= foreign->look[last].time_ns ||
	    look->time_ns - foreign->look[last].time_ns > WINDOW_NS ||
	    look->counted_ns < foreign->counted_ns) {
		foreign_begin(foreign, look);
		foreign_add(foreign, look, 0);
		return foreign->verdict;
	}
	counted = look->counted_ns - foreign->counted_ns;
	measured = counted < UINT64_MAX / FOREIGN_WHOLE
	               ? counted * FOREIGN_WHOLE / foreign->verdict.thousandths
	               : counted;
	foreign_add(foreign, look, foreign->look[last].measured_ns + measured);
	foreign_sum_up(foreign, &sums);
	foreign->verdict = foreign_judge_sums(&sums, &foreign->verdict);
	return foreign->verdict;
}

/* Fills known and known_share of a look from the lanes of other processes. turns may be NULL. */
static void foreign_know(struct foreign_look *look, const struct turns *turns, uint64_t owner)
{
	uint32_t lanes = turns ? atomic_load(&turns->lanes) : 0;
	uint64_t share = 0;

	look->known = 0;
	for (uint32_t i = 0; i < lanes && i < TURN_LANES; i++) {
		const struct turn_lane *lane = &turns->lane[i];
		uint64_t of = atomic_load(&lane->owner), seen = atomic_load(&lane->seen_ns);

		if (of == 0 || of == owner || seen + KNOWN_NS < look->time_ns ||
		    seen > look->time_ns + KNOWN_NS)
			continue;
		look->known++;
		share += atomic_load(&lane->policy) == POLICY_CAP ? atomic_load(&lane->share)
		                                                  : FULL_SHARE;
	}
	look->known_share = share < FULL_SHARE ? (uint32_t)share : FULL_SHARE;
}

#define ASKED_NS UINT64_C(2000000000) /* for so long after it worked last */

/*
 * Returns the busy part of the time since a look some HELD_OVER_NS ago, or the first one, in
 * thousandths of a percent. busy_ns: ever counted. One that comes too early is not remembered.
 */
static uint32_t held_share(struct held *held, uint64_t now_ns, uint64_t busy_ns)
{
	uint64_t first = held->looks > HELD_LOOKS ? held->looks - HELD_LOOKS : 0, busy, time;
	uint64_t last = held->looks ? held->looks - 1 : 0;

	if (held->looks && (now_ns < held->look[last % HELD_LOOKS].time_ns ||
	                    busy_ns < held->look[last % HELD_LOOKS].busy_ns))
		first = last = held->looks = 0;
	while (first < last &&
	       now_ns - held->look[(first + 1) % HELD_LOOKS].time_ns >= HELD_OVER_NS)
		first++;
	time = held->looks ? now_ns - held->look[first % HELD_LOOKS].time_ns : 0;
	busy = held->looks ? busy_ns - held->look[first % HELD_LOOKS].busy_ns : 0;
	if (!held->looks ||
	    now_ns - held->look[last % HELD_LOOKS].time_ns >= HELD_EVERY_NS - HELD_EVERY_NS / 8) {
		held->look[held->looks % HELD_LOOKS].time_ns = now_ns;
		held->look[held->looks++ % HELD_LOOKS].busy_ns = busy_ns;
	}
	if (!time)
		return 0;
	return busy < time ? (uint32_t)(busy * FULL_SHARE / time) : FULL_SHARE;
}

uint32_t held_look(struct held *held, const struct config_device *device,
                   struct counters *statistics, const struct turns *turns, uint64_t owner,
                   uint64_t now_ns)
{
	struct foreign_look look = {
	    .time_ns = now_ns,
	    .counted_ns = statistics_get(&statistics->busy_ns),
	    .use = {.own = 0},
	};
	struct foreign_verdict verdict = held->foreign.verdict;

	if (held->looks == 0 || look.counted_ns != held->counted_ns)
		held->worked_ns = now_ns;
	held->counted_ns = look.counted_ns;
	statistics_set(&statistics->share_held, held_share(held, now_ns, look.counted_ns));
	/* Looks that follow more closely would be about less time than a verdict needs. */
	if (now_ns - held->worked_ns > ASKED_NS ||
	    (held->asked_ns && now_ns - held->asked_ns < HELD_EVERY_NS - HELD_EVERY_NS / 8))
		return verdict.thousandths;
	held->asked_ns = now_ns;
	if (!foreign_ask || !foreign_ask(device, &look.use))
		look.use = (struct foreign_use){-1, -1, -1};
	foreign_know(&look, turns, owner);
	verdict = foreign_judge(&held->foreign, &look);
	statistics_set(&statistics->share_estimated, verdict.estimated);
	return verdict.thousandths;
}

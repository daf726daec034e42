/* SPDX-License-Identifier: MIT */
/*
 * Foreign tenants, on a simulated device. Processes run by slices in turns, and NVML reports whole
 * percents of the last second. The job pays for the time that events measured, corrected. Estimates
 * are compared with the true values.
 */
#include "tests/unit/scratch.h"

#include <stdbool.h>

#include "core/budget/device.h"
#include "core/pace/foreign.h"
#include "core/pace/foreign.c" /* held_share(), too */

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)
#define WINDOW (100 * MS)

enum { PROCESSES = 4, SLICE = 2, SAMPLE = 1000, LOOK = 250 }; /* times in ms */

/*
 * One process: works and pauses by turns, for so long while it has the device alone; ms. The first
 * is ours.
 */
struct tenant {
	unsigned int works, pauses; /* pauses 0: always works */
	unsigned int left;          /* of what it does now */
	bool pauses_now;
	bool ran[SAMPLE]; /* in the last second, by the ms */
	uint64_t total;
};

struct paper {
	struct tenant tenant[PROCESSES];
	int count, running;
	unsigned int slice_left;
	uint64_t ms;
	/* ours */
	uint64_t counted_ns, paid_until_ns;
	unsigned int round;    /* ms of its own work before each slot */
	unsigned int measured; /* ms of the round, with the slices of others */
	struct foreign foreign;
	struct held held;
	struct foreign_verdict verdict;
	uint32_t share_held;
};

static bool wants(const struct tenant *tenant)
{
	return !tenant->pauses_now;
}

/* Returns who has the device in this ms; -1: nobody. */
static int next_running(struct paper *d)
{
	if (d->slice_left && wants(&d->tenant[d->running]))
		return d->running;
	for (int i = 1; i <= d->count; i++) {
		int next = (d->running + i) % d->count;
		if (wants(&d->tenant[next])) {
			d->slice_left = SLICE;
			return d->running = next;
		}
	}
	return -1;
}

static void advance(struct tenant *tenant, bool runs, unsigned int at)
{
	tenant->ran[at] = runs;
	tenant->total += runs;
	if (tenant->pauses && (runs || tenant->pauses_now) && --tenant->left == 0) {
		tenant->pauses_now = !tenant->pauses_now;
		tenant->left = tenant->pauses_now ? tenant->pauses : tenant->works;
	}
}

/*
 * Ours: rounds of its own work, each followed by what is left of the time that what was measured
 * pays for.
 */
static void pace(struct paper *d, bool runs, unsigned int at, unsigned int share)
{
	struct tenant *own = &d->tenant[0];
	uint64_t counted;

	own->ran[at] = runs;
	own->total += runs;
	if (!own->pauses_now) {
		d->measured++;
		own->left -= runs;
		if (own->left)
			return;
		counted = d->measured * MS * d->verdict.thousandths / FOREIGN_WHOLE;
		d->counted_ns += counted;
		if (d->paid_until_ns + WINDOW < d->ms * MS)
			d->paid_until_ns = d->ms * MS - WINDOW;
		d->paid_until_ns += counted * 100 / share;
		d->measured = 0;
		own->left = d->round;
	}
	own->pauses_now = d->paid_until_ns > d->ms * MS;
}

static unsigned int percent(const struct tenant *tenant)
{
	unsigned int ran = 0;
	for (int i = 0; i < SAMPLE; i++)
		ran += tenant->ran[i];
	return ran * 100 / SAMPLE;
}

enum how { BY_PROCESS, BY_TOTALS, BY_ANOTHERS_NUMBER, UNTOLD };

static struct foreign_use nvml(const struct paper *d, enum how how)
{
	struct foreign_use use = {-1, -1, -1};
	unsigned int sum = 0, others = 0;

	for (int i = 0; i < d->count; i++) {
		sum += percent(&d->tenant[i]);
		others += i > 0 && percent(&d->tenant[i]) > 0;
	}
	if (how == UNTOLD)
		return use;
	use.device = sum < 100 ? (int)sum : 100;
	if (how == BY_PROCESS)
		use.own = (int)percent(&d->tenant[0]);
	if (how == BY_ANOTHERS_NUMBER)
		use.own = 0;
	if (how != BY_TOTALS)
		use.others = (int)others;
	return use;
}

static void run(struct paper *d, unsigned int ms, unsigned int share, enum how how)
{
	while (ms--) {
		unsigned int at = d->ms % SAMPLE;
		int running = next_running(d);

		d->slice_left -= d->slice_left > 0;
		for (int i = 1; i < d->count; i++)
			advance(&d->tenant[i], i == running, at);
		pace(d, running == 0, at, share);
		if (++d->ms % LOOK != 0)
			continue;
		struct foreign_look look = {
		    .time_ns = d->ms * MS, .counted_ns = d->counted_ns, .use = nvml(d, how)};
		d->verdict = foreign_judge(&d->foreign, &look);
		d->share_held = held_share(&d->held, look.time_ns, look.counted_ns);
	}
}

static void put(struct paper *d, int foreigners, unsigned int works, unsigned int pauses)
{
	d->count = foreigners + 1;
	d->round = SLICE;
	d->tenant[0].left = SLICE;
	for (int i = 1; i < d->count; i++)
		d->tenant[i] = (struct tenant){.works = works, .pauses = pauses, .left = works};
}

static struct paper *new_paper(int foreigners, unsigned int works, unsigned int pauses)
{
	static struct paper device;

	device = (struct paper){.verdict = {FOREIGN_WHOLE, false}};
	put(&device, foreigners, works, pauses);
	return &device;
}

/*
 * By how many points of the device what share_held says of the last five seconds differs from what
 * was ours.
 */
static double error_of(struct paper *d, unsigned int share, enum how how)
{
	uint64_t before = d->tenant[0].total;

	run(d, 5000, share, how);
	return d->share_held / 1000.0 - (double)(d->tenant[0].total - before) / 50;
}

static void compare(struct paper *d, unsigned int share, enum how how, double points,
                    const char *what)
{
	double error = error_of(d, share, how);

	ck_assert_msg(error > -points && error < points, "%s: share %u: %.1f points from the truth",
	              what, share, error);
}

static const unsigned int shares[] = {10, 25, 50, 75, 90};
static const struct {
	unsigned int works, pauses;
} manners[] = {{1, 0}, {30, 10}, {10, 10}, {5, 20}, {300, 300}};
enum { SHARES = 5, MANNERS = 5 };

static void meets_foreigners(enum how how, double points)
{
	char what[96];

	for (int s = 0; s < SHARES; s++)
		for (int m = 0; m < MANNERS; m++)
			for (int foreigners = 1; foreigners < PROCESSES; foreigners++) {
				struct paper *d =
				    new_paper(foreigners, manners[m].works, manners[m].pauses);
				snprintf(what, sizeof what, "%d foreigners, %u ms of %u",
				         foreigners, manners[m].works,
				         manners[m].works + manners[m].pauses);
				run(d, 6000, shares[s], how);
				compare(d, shares[s], how, points, what);
			}
}

START_TEST(what_nvml_tells_of_us_is_what_we_had)
{
	meets_foreigners(BY_PROCESS, 2);
}
END_TEST

/* Roughly: of what slices do to us nothing is known. */
START_TEST(what_a_foreigner_leaves_is_told_by_totals)
{
	double sum = 0, uncorrected = 0;
	int count = 0;

	for (int s = 0; s < SHARES; s++)
		for (int m = 0; m < MANNERS; m++)
			for (unsigned int round = 2; round <= 50; round += 12, count++) {
				struct paper *d = new_paper(1, manners[m].works, manners[m].pauses);
				d->round = round;
				run(d, 6000, shares[s], BY_TOTALS);
				double error = error_of(d, shares[s], BY_TOTALS);
				ck_assert_msg(error > -17 && error < 17, "%u: %.1f", shares[s],
				              error);
				sum += error < 0 ? -error : error;
				d = new_paper(1, manners[m].works, manners[m].pauses);
				d->round = round;
				run(d, 6000, shares[s], UNTOLD);
				uncorrected += error_of(d, shares[s], UNTOLD);
			}
	ck_assert_msg(sum / count < 5, "%.1f points", sum / count);
	ck_assert_msg(uncorrected / count > 10, "%.1f points without", uncorrected / count);
}
END_TEST

START_TEST(a_number_that_is_another_s_is_not_ours)
{
	for (int s = 0; s < SHARES; s++) {
		struct paper *d = new_paper(2, 1, 0);
		d->round = 10;
		run(d, 6000, shares[s], BY_ANOTHERS_NUMBER);
		compare(d, shares[s], BY_ANOTHERS_NUMBER, 15, "two, under another's number");
		ck_assert(d->verdict.estimated);
	}
}
END_TEST

START_TEST(the_share_is_held_beside_a_foreigner)
{
	/* Those that slices allow; without the correction 30 % would be 15. */
	for (unsigned int share = 10; share <= 40; share += 10) {
		struct paper *d = new_paper(1, 1, 0);
		d->round = 20;
		run(d, 6000, share, BY_PROCESS);
		ck_assert(d->verdict.estimated);
		ck_assert_uint_ge(d->verdict.thousandths, 450);
		ck_assert_uint_le(d->verdict.thousandths, 550);
		uint64_t before = d->tenant[0].total;
		run(d, 5000, share, BY_PROCESS);
		double held = (double)(d->tenant[0].total - before) / 50;
		ck_assert_msg(held > share - 3.0 && held < share + 3.0, "%u: %.1f", share, held);
	}
}
END_TEST

START_TEST(alone_nothing_is_corrected)
{
	for (int how = BY_PROCESS; how <= UNTOLD; how++)
		for (int s = 0; s < SHARES; s++) {
			struct paper *d = new_paper(0, 0, 0);
			for (int i = 0; i < 40; i++) {
				run(d, LOOK, shares[s], how);
				ck_assert_uint_eq(d->verdict.thousandths, FOREIGN_WHOLE);
				ck_assert(!d->verdict.estimated);
			}
			compare(d, shares[s], how, 1, "alone");
		}
}
END_TEST

START_TEST(who_cannot_be_asked_about_corrects_nothing)
{
	struct paper *d = new_paper(2, 1, 0);

	run(d, 10000, 30, UNTOLD);
	ck_assert_uint_eq(d->verdict.thousandths, FOREIGN_WHOLE);
	ck_assert(!d->verdict.estimated);
}
END_TEST

START_TEST(foreigners_come_and_go)
{
	struct paper *d = new_paper(0, 0, 0);

	run(d, 6000, 40, BY_PROCESS);
	ck_assert(!d->verdict.estimated);
	put(d, 1, 1, 0);
	run(d, 4000, 40, BY_PROCESS);
	ck_assert(d->verdict.estimated);
	compare(d, 40, BY_PROCESS, 5, "come");
	put(d, 0, 0, 0);
	run(d, 4000, 40, BY_PROCESS);
	ck_assert_uint_eq(d->verdict.thousandths, FOREIGN_WHOLE);
	ck_assert(!d->verdict.estimated);
}
END_TEST

/* Looks by hand, of a process that was measured for `busy` percent of the time. */
static struct foreign_verdict judge(unsigned int busy, const struct foreign_look *as)
{
	struct foreign foreign = {0};
	struct foreign_verdict verdict = {0};
	struct foreign_look look = *as;

	for (int i = 0; i < 20; i++) {
		look.time_ns = SECOND + i * LOOK * MS;
		verdict = foreign_judge(&foreign, &look);
		look.counted_ns += LOOK * MS * busy / 100 * verdict.thousandths / FOREIGN_WHOLE;
	}
	return verdict;
}

START_TEST(who_takes_turns_is_not_foreign)
{
	struct foreign_look look = {.use = {45, 95, 1}, .known = 1, .known_share = 50000};

	ck_assert_uint_eq(judge(50, &look).thousandths, FOREIGN_WHOLE);
	look.known = 0; /* the same, and it takes no turns */
	ck_assert_uint_eq(judge(50, &look).thousandths, 900);
	ck_assert(judge(50, &look).estimated);
	look.known = 1; /* and one who does not */
	look.use.others = 2;
	ck_assert_uint_eq(judge(50, &look).thousandths, 900);

	/* One whom NVML does not show, but for the device's use. */
	look.use = (struct foreign_use){30, 85, 0};
	look.known = 0;
	look.known_share = 0;
	ck_assert_uint_eq(judge(50, &look).thousandths, 600);
	look.known = 1;
	look.known_share = 50000;
	ck_assert_uint_eq(judge(50, &look).thousandths, FOREIGN_WHOLE);

	/* By totals: who takes turns may have had what is not ours. */
	look.use = (struct foreign_use){-1, 100, -1};
	ck_assert_uint_eq(judge(50, &look).thousandths, FOREIGN_WHOLE);
	look.known_share = 0;
	ck_assert_uint_eq(judge(50, &look).thousandths, 571);
	look.known_share = 25000;
	ck_assert_uint_eq(judge(50, &look).thousandths, 727);
}
END_TEST

START_TEST(lanes_of_others_are_known)
{
	static struct turns turns;
	struct foreign_look look = {.time_ns = 100 * SECOND, .known = 5, .known_share = 5};

	foreign_know(&look, NULL, 7);
	ck_assert_int_eq(look.known, 0);
	ck_assert_uint_eq(look.known_share, 0);
	for (uint64_t i = 0; i < 6; i++) {
		turns.lane[i].owner = 10 + i;
		turns.lane[i].seen_ns = 99 * SECOND;
		turns.lane[i].share = 20000;
		turns.lane[i].policy = POLICY_CAP;
	}
	turns.lane[1].owner = 7;               /* ours */
	turns.lane[2].owner = 0;               /* nobody's */
	turns.lane[3].seen_ns = 96 * SECOND;   /* at rest */
	turns.lane[4].seen_ns = 1000 * SECOND; /* nonsense */
	turns.lanes = 6;
	foreign_know(&look, &turns, 7);
	ck_assert_int_eq(look.known, 2);
	ck_assert_uint_eq(look.known_share, 40000);
	turns.lane[5].policy = POLICY_WEIGHT; /* what others leave */
	foreign_know(&look, &turns, 7);
	ck_assert_uint_eq(look.known_share, 100000);
	turns.lanes = UINT32_MAX; /* of a file that says anything */
	turns.lane[TURN_LANES - 1].owner = UINT64_MAX;
	turns.lane[TURN_LANES - 1].seen_ns = UINT64_MAX;
	turns.lane[0].share = UINT32_MAX;
	foreign_know(&look, &turns, 7);
	ck_assert_int_eq(look.known, 2);
	ck_assert_uint_eq(look.known_share, 100000);
}
END_TEST

START_TEST(a_pause_keeps_what_was_known)
{
	struct paper *d = new_paper(1, 1, 0);

	run(d, 6000, 40, BY_PROCESS);
	uint32_t thousandths = d->verdict.thousandths;
	d->paid_until_ns += 6 * SECOND; /* nothing is launched */
	d->tenant[0].pauses_now = true;
	run(d, 5000, 40, BY_PROCESS);
	ck_assert(d->verdict.estimated);
	ck_assert_uint_ge(d->verdict.thousandths, thousandths - 100);
	ck_assert_uint_le(d->verdict.thousandths, thousandths + 100);
}
END_TEST

START_TEST(nonsense_is_bounded)
{
	static const uint64_t steps[] = {0, 1, MS, LOOK * MS, 3 * SECOND, UINT64_MAX / 2};
	struct foreign foreign = {0};
	struct foreign_look look = {0};
	struct held held = {0};

	for (int i = 0; i < 200000; i++) {
		look.time_ns += steps[scratch_random() % 6];
		look.counted_ns += steps[scratch_random() % 6];
		look.use.own = (int)(scratch_random() % 300) - 50;
		look.use.device = (int)(scratch_random() % 300) - 50;
		look.use.others = (int)scratch_random();
		look.known = (int)(scratch_random() & 0x7fffffff);
		look.known_share = (uint32_t)scratch_random();
		struct foreign_verdict verdict = foreign_judge(&foreign, &look);
		ck_assert_uint_ge(verdict.thousandths, 50);
		ck_assert_uint_le(verdict.thousandths, FOREIGN_WHOLE);
		ck_assert_int_eq(verdict.estimated, verdict.thousandths < FOREIGN_WHOLE);
		ck_assert_uint_le(held_share(&held, look.time_ns, look.counted_ns), 100000);
	}
}
END_TEST

START_TEST(the_share_held_is_of_the_last_five_seconds)
{
	struct held held = {0};
	uint64_t now = 77, busy = 5 * SECOND;

	ck_assert_uint_eq(held_share(&held, now, busy), 0); /* nothing is known yet */
	for (int i = 0; i < 40; i++)
		held_share(&held, now += LOOK * MS, busy += LOOK * MS * 60 / 100);
	ck_assert_uint_eq(held_share(&held, now, busy), 60000);
	/* From now on nothing: in a second four fifths are left, after five nothing is. */
	for (int i = 0; i < 4; i++)
		held_share(&held, now += LOOK * MS, busy);
	ck_assert_uint_eq(held_share(&held, now, busy), 48000);
	for (int i = 0; i < 16; i++)
		held_share(&held, now += LOOK * MS, busy);
	ck_assert_uint_eq(held_share(&held, now, busy), 0);
	/* Looks that come too often are looks all the same, and do not shorten the time. */
	for (int i = 0; i < 5000; i++)
		held_share(&held, now += MS, busy += MS * 3 / 10);
	uint32_t share = held_share(&held, now, busy);
	ck_assert_uint_ge(share, 28000);
	ck_assert_uint_le(share, 30000);
	/* Late ones are of the time there was. */
	share = held_share(&held, now += 10 * SECOND, busy + 9 * SECOND);
	ck_assert_uint_ge(share, 88000);
	ck_assert_uint_le(share, 90000);
	/* A counter that begins anew. */
	ck_assert_uint_eq(held_share(&held, now += SECOND, 0), 0);
	ck_assert_uint_eq(held_share(&held, now += SECOND, SECOND / 4), 25000);
}
END_TEST

static int asked;

static bool says_half(const struct config_device *device, struct foreign_use *use)
{
	(void)device;
	*use = (struct foreign_use){25, 100, 1};
	asked++;
	return true;
}

/* The helper is called for other things, too, such as others' looking at its peer record. */
START_TEST(looks_that_come_often_tell_the_same)
{
	static struct device device;
	static struct counters counters;
	static struct held held;
	uint64_t now = SECOND;
	uint32_t own = 0;

	device.statistics = &counters;
	foreign_ask = says_half;
	asked = 0;
	for (int i = 0; i < 10 * 1000 / 57; i++) {
		own = held_look(&held, &device.id, device.statistics, NULL, 1, now += 57 * MS);
		statistics_add(&device.statistics->busy_ns, 57 * MS / 2 * own / FOREIGN_WHOLE);
	}
	ck_assert_uint_eq(own, 500);
	ck_assert_uint_eq(device.statistics->share_estimated, 1);
	ck_assert_int_le(asked, 46);
}
END_TEST

START_TEST(nothing_is_asked_at_rest)
{
	static struct device device;
	static struct counters counters;
	static struct held held;
	uint64_t now = SECOND;
	uint32_t own = 0;

	device.statistics = &counters;
	foreign_ask = says_half;
	asked = 0;
	for (int i = 0; i < 40; i++) {
		own = held_look(&held, &device.id, device.statistics, NULL, 1, now += LOOK * MS);
		statistics_add(&device.statistics->busy_ns, LOOK * MS / 2 * own / FOREIGN_WHOLE);
		ck_assert(!held_rests(&held, now));
	}
	ck_assert_int_eq(asked, 40);
	ck_assert_uint_eq(own, 500);
	ck_assert_uint_eq(device.statistics->share_held, 25000);
	ck_assert_uint_eq(device.statistics->share_estimated, 1);

	/*
	 * It rests: soon nobody is asked, then nothing is left to look at; what was known is kept.
	 */
	for (int i = 0; i < 40; i++)
		own = held_look(&held, &device.id, device.statistics, NULL, 1, now += LOOK * MS);
	ck_assert_int_le(asked, 40 + 9);
	ck_assert(held_rests(&held, now));
	ck_assert_uint_eq(own, 500);
	ck_assert_uint_eq(device.statistics->share_held, 0);

	/* It works again. */
	asked = 0;
	now += 100 * SECOND;
	statistics_add(&device.statistics->busy_ns, 1);
	ck_assert_uint_eq(held_look(&held, &device.id, device.statistics, NULL, 1, now), 500);
	ck_assert(!held_rests(&held, now));
	ck_assert_int_eq(asked, 1);

	/* Nobody can be asked: nothing is corrected. */
	foreign_ask = NULL;
	for (int i = 0; i < 20; i++) {
		own = held_look(&held, &device.id, device.statistics, NULL, 1, now += LOOK * MS);
		statistics_add(&device.statistics->busy_ns, LOOK * MS / 2);
	}
	ck_assert_uint_eq(own, FOREIGN_WHOLE);
	ck_assert_uint_eq(device.statistics->share_estimated, 0);
	held_forget(&held, device.statistics);
	ck_assert_uint_eq(device.statistics->share_held, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("foreign");
	TCase *tests = tcase_create("foreign");
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, what_nvml_tells_of_us_is_what_we_had);
	tcase_add_test(tests, what_a_foreigner_leaves_is_told_by_totals);
	tcase_add_test(tests, a_number_that_is_another_s_is_not_ours);
	tcase_add_test(tests, the_share_is_held_beside_a_foreigner);
	tcase_add_test(tests, alone_nothing_is_corrected);
	tcase_add_test(tests, who_cannot_be_asked_about_corrects_nothing);
	tcase_add_test(tests, foreigners_come_and_go);
	tcase_add_test(tests, who_takes_turns_is_not_foreign);
	tcase_add_test(tests, lanes_of_others_are_known);
	tcase_add_test(tests, a_pause_keeps_what_was_known);
	tcase_add_test(tests, nonsense_is_bounded);
	tcase_add_test(tests, looks_that_come_often_tell_the_same);
	tcase_add_test(tests, nothing_is_asked_at_rest);
	tcase_add_test(tests, the_share_held_is_of_the_last_five_seconds);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}

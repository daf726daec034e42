/* SPDX-License-Identifier: MIT */
/*
 * Shares cost no GPU time, in virtual time. The device does not idle while a job that is not ahead
 * of its share has a launch waiting. Jobs with gaps do as much together as without shares.
 *
 * TELL=1 prints the figures of each world.
 */
#include "tests/unit/state_directory.h"

#include <stdio.h>

#include "tests/unit/pace_programs.h"
#include "tests/unit/suite.h"

enum { JOBS_MOST = 8, STEPS_MOST = 8192, POLICIES = 2 };

/* A step is 16 kernels of 0.5 ms. The pauses make a job alone busy for 32, 53, 74 and 98 %. */
#define STEP_NS (16 * 500 * US)
static const uint64_t pauses[] = {17000 * US, 7100 * US, 2800 * US, 100 * US};
enum { LOADS = sizeof(pauses) / sizeof(*pauses) };

static struct program program[JOBS_MOST];
static int programs;
static uint64_t took[JOBS_MOST][STEPS_MOST];

/* One wake in late_one_in is late by up to 2 ms, as on a busy host; 0: none. */
static void begin_late(uint64_t hand_over_ns, uint64_t seed, uint64_t late_one_in)
{
	struct world_settings settings = world_usual;

	settings.seed = seed;
	settings.late_one_in = late_one_in;
	settings.late_ns = 2 * MS;
	settings.handing_ns = 20 * US;
	settings.wake_least_ns = settings.wake_most_ns = hand_over_ns;
	world_start(&settings);
	programs = 0;
}

static void begin(uint64_t hand_over_ns, uint64_t seed)
{
	begin_late(hand_over_ns, seed, 0);
}

static void add(const struct program *template, double share, int policy, uint64_t until)
{
	struct program *p = &program[programs];

	*p = *template;
	p->name = "job";
	p->process = process_create(world_job(), 1);
	p->until = until;
	p->batch_took_ns = took[programs++];
	p->batches_most = STEPS_MOST;
	process_set(p->process, 0, share, policy);
	program_start(p);
}

/* --- the observer --- */

#define LOOK_NS (5 * US)

static struct observer {
	struct actor actor;
	uint64_t since;   /* the device idles although a job may launch; 0: it does not */
	uint64_t longest; /* of these times */
	uint64_t sum;
	uint64_t at; /* when the longest began */
} observer;

static bool device_has_work(void)
{
	const struct gpu *g = world.gpu[0];

	for (int i = 0; i < g->tenants; i++) {
		for (int j = 0; j < g->tenant[i]->streams; j++) {
			if (g->tenant[i]->stream[j]->kernels)
				return true;
		}
	}
	return false;
}

/* Returns whether the pacer holds a launch of a process that is not ahead of its share. */
static bool may_launch(const struct thread *t)
{
	const struct process *p = t->process;

	if (!p || t->ended || t->body == world.thread[1].body ||
	    (strcmp(t->doing, "waits in the pacer") != 0))
		return false;
	/* A weight binds only against a job that has work, and the device has none. */
	return p->settings[0].policy == POLICY_WEIGHT || p->job->lanes.paid_until[0] <= world.now;
}

static void observe(struct actor *actor)
{
	bool is_lost = false;

	for (int i = 1; i < world.threads && !is_lost; i++)
		is_lost = may_launch(&world.thread[i]);
	is_lost = is_lost && !device_has_work();
	if (is_lost && !observer.since)
		observer.since = world.now;
	if (!is_lost && observer.since) {
		uint64_t length = world.now - observer.since;

		observer.sum += length;
		if (length > observer.longest) {
			observer.longest = length;
			observer.at = observer.since;
		}
		observer.since = 0;
	}
	world_appoint(actor, world.now + LOOK_NS, observe);
}

static void run_until(uint64_t from, uint64_t to)
{
	observer = (struct observer){.since = 0};
	world_run_until(from);
	for (int i = 0; i < programs; i++)
		program[i].batches = 0;
	world_appoint(&observer.actor, world.now, observe);
	world_run_until(to);
	world_cancel(&observer.actor);
}

/* --- what came of it --- */

struct result {
	double work[JOBS_MOST], sum; /* percent of the time */
	double slow;                 /* the 99th percentile of a step, ms */
	uint64_t longest, lost;
};

static int by_length(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return (one > other) - (one < other);
}

static double percentile_99(void)
{
	static uint64_t all[JOBS_MOST * STEPS_MOST];
	size_t count = 0, at;

	for (int i = 0; i < programs; i++) {
		memcpy(&all[count], took[i], program[i].batches * sizeof(*all));
		count += program[i].batches;
	}
	qsort(all, count, sizeof(*all), by_length);
	at = count * 99 / 100;
	return count ? (double)all[at] / 1e6 : 0;
}

static struct result run(uint64_t seconds)
{
	struct result r = {.sum = 0};
	uint64_t from = world.now + 1 * S, to = from + seconds * S;

	run_until(from, to);
	for (int i = 0; i < programs; i++) {
		struct tenant *t = program[i].process->tenant[0];

		r.work[i] = 100 * (double)truth_busy(t, from, to) / (double)(to - from);
		r.sum += r.work[i];
	}
	r.slow = percentile_99();
	r.longest = observer.longest;
	r.lost = observer.sum;
	ck_assert_uint_eq(world.misuse, 0);
	if (getenv("TELL")) {
		printf("   sum %5.1f (", r.sum);
		for (int i = 0; i < programs; i++)
			printf("%s%.1f", i ? " " : "", r.work[i]);
		printf("), step p99 %.2f ms, idle beside a launch: longest %.3f ms at %.4f, all "
		       "%.1f ms\n",
		       r.slow, (double)r.longest / 1e6, (double)observer.at / 1e9,
		       (double)r.lost / 1e6);
		fflush(stdout);
	}
	world_end();
	return r;
}

/* --- steps with gaps, of two jobs --- */

static const uint64_t hand_overs[] = {20 * US, 100 * US};
enum { HAND_OVERS = sizeof(hand_overs) / sizeof(*hand_overs) };

/* Caps of more than 100 % together are weights. */
static const struct way {
	const char *name;
	double share;
	int policy;
} ways[] = {
    {"caps of 50", 50, POLICY_CAP},
    {"caps of 60", 60, POLICY_CAP},
    {"weights", 60, POLICY_WEIGHT},
};
enum { WAYS = sizeof(ways) / sizeof(*ways) };

static struct result two_late_jobs(int load, int hand_over, double share, int policy, uint64_t seed,
                                   uint64_t late_one_in)
{
	const struct program steps = {.kernel_ns = 500 * US,
	                              .jitter = 0.03,
	                              .batch = 16,
	                              .waits = true,
	                              .pause_ns = pauses[load],
	                              .pause_varies = load < 3};

	begin_late(hand_overs[hand_over], seed, late_one_in);
	add(&steps, share, policy, 100 * S);
	add(&steps, share, policy, 100 * S);
	return run(12);
}

static struct result two_jobs(int load, int hand_over, double share, int policy, uint64_t seed)
{
	return two_late_jobs(load, hand_over, share, policy, seed, 0);
}

START_TEST(two_equal_jobs_do_as_much_as_without_shares)
{
	int load = _i % LOADS, hand_over = _i / LOADS % HAND_OVERS;
	const struct way *way = &ways[_i / LOADS / HAND_OVERS];
	struct result without, with;

	if (getenv("TELL"))
		printf("load %d, hand-over %d us, %s\n", load, hand_over ? 100 : 20, way->name);
	without = two_jobs(load, hand_over, 100, POLICY_CAP, (uint64_t)load + 1);
	with = two_jobs(load, hand_over, way->share, way->policy, (uint64_t)load + 1);
	ck_assert_double_ge(with.sum, 0.98 * without.sum);
	for (int i = 0; i < 2; i++)
		ck_assert_double_eq_tol(with.work[i], with.sum / 2, 0.02 * with.sum / 2);
	ck_assert_double_le(with.slow, 1.1 * without.slow);
}
END_TEST

/*
 * A launch that naps within a step wakes late now and then, and the device runs dry. The job keeps
 * the turn all the same. Else it would wait for a step of the other job, 8 ms for a wake 1 ms late.
 */
START_TEST(a_late_wake_costs_no_turn)
{
	int load = 1 + _i % 2;
	const struct way *way = &ways[_i / 2];
	struct result without = two_late_jobs(load, 0, 100, POLICY_CAP, 1, 50);
	struct result with = two_late_jobs(load, 0, way->share, way->policy, 1, 50);

	ck_assert_double_ge(with.sum, 0.98 * without.sum);
	ck_assert_double_le(with.slow, 1.1 * without.slow);
}
END_TEST

/*
 * A job with pauses as short as a hand-over passes the turn on after each step, also when its steps
 * were shorter by chance than those of the job that waits. Else that job would wait for two steps.
 */
START_TEST(steps_alternate)
{
	int policy = _i % POLICIES ? POLICY_WEIGHT : POLICY_CAP;
	uint64_t seed = 303 + (uint64_t)_i / POLICIES;
	struct result without = two_jobs(LOADS - 1, 0, 100, POLICY_CAP, seed);
	struct result with = two_jobs(LOADS - 1, 0, 50, policy, seed);

	ck_assert_double_le(with.slow, 1.1 * without.slow);
	ck_assert_double_ge(with.sum, 0.98 * without.sum);
}
END_TEST

/*
 * Each look of a watcher takes processor time from the program, and on a small host from its
 * kernels' launches. A job that has not the turn needs none, and a step that ends as expected ten.
 */
START_TEST(watchers_look_rarely)
{
	const struct program steps = {.kernel_ns = 500 * US,
	                              .jitter = 0.03,
	                              .batch = 16,
	                              .waits = true,
	                              .pause_ns = 700 * US};
	uint64_t looks[2], many = 0;

	begin(20 * US, 1);
	for (int i = 0; i < 2; i++)
		add(&steps, 50, _i ? POLICY_WEIGHT : POLICY_CAP, 100 * S);
	world_run_until(2 * S);
	for (int i = 0; i < 2; i++)
		looks[i] = program[i].process->watcher_looks;
	world_run_until(12 * S);
	for (int i = 0; i < 2; i++)
		many += program[i].process->watcher_looks - looks[i];
	if (getenv("TELL"))
		printf("   %.0f looks per second and job\n", (double)many / 20);
	ck_assert_uint_le(many, 20 * 1200);
	world_end();
}
END_TEST

/* --- two to eight jobs of all kinds --- */

static const struct program kinds[] = {
    {.kernel_ns = 500 * US,
     .jitter = 0.03,
     .batch = 16,
     .waits = true,
     .pause_ns = 6 * MS,
     .pause_varies = true},
    {.kernel_ns = 50 * US, .jitter = 0.1, .batch = 40, .waits = true, .pause_ns = 3 * MS},
    {.kernel_ns = 1 * MS, .jitter = 0.1},
    {.kernel_ns = 2 * MS, .batch = 4, .waits = true, .pause_ns = 1 * MS}, /* graphs */
    {.kernel_ns = 1 * MS, .batch = 1, .waits = true},
    {.kernel_ns = 300 * US,
     .jitter = 0.2,
     .batch = 60,
     .waits = true,
     .pause_ns = 20 * MS,
     .pause_varies = true},
    {.kernel_ns = 8 * MS, .batch = 1, .waits = true, .pause_ns = 8 * MS}, /* a graph */
    {.kernel_ns = 200 * US, .batch = 5, .waits = true, .pause_ns = 200 * US},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds), SEEDS = 7 };

START_TEST(the_device_never_idles_beside_a_job_that_is_not_ahead)
{
	int jobs = 2 + _i % SEEDS, hand_over = _i / SEEDS % HAND_OVERS;
	int policy = _i / SEEDS / HAND_OVERS ? POLICY_WEIGHT : POLICY_CAP;
	uint64_t random = (uint64_t)_i + 1;
	struct result r;

	if (getenv("TELL"))
		printf("%d jobs, hand-over %d us, %s\n", jobs, hand_over ? 100 : 20,
		       policy == POLICY_WEIGHT ? "weight" : "cap");
	begin(hand_overs[hand_over], (uint64_t)_i + 1);
	for (int i = 0; i < jobs; i++)
		add(&kinds[random_between(&random, 0, KINDS - 1)], 100.0 / jobs, policy, 100 * S);
	r = run(4);
	/*
	 * A hand-over: the watcher's look is late, the job may launch again for 100 us, the next
	 * look is late, the other job wakes late. Kernels that end early are seen late, too.
	 */
	ck_assert_uint_le(r.longest, 3 * hand_overs[hand_over] + 250 * US);
}
END_TEST

/* --- two inference engines --- */

/*
 * An engine as tests/bench/engine.c has it: so many clients, a prefill of 8 kernels for each
 * request, decode steps of a graph of 6 ms and 100 kernels of 20 us, 0.7 ms on the host between.
 */
enum { ENGINES = 2, CLIENTS_MOST = 32, GAPS_MOST = 1 << 16 };

static struct engine {
	struct process *process;
	int clients;
	struct {
		uint64_t at; /* of its next request, or its last token */
		int left;    /* tokens; 0: it pauses */
	} client[CLIENTS_MOST];
	uint64_t random; /* of its requests, the same in each way */
	uint64_t tokens, from, gap[GAPS_MOST];
	size_t gaps;
} engine[ENGINES];

static void engine_kernels(int count, uint64_t ns)
{
	const struct item kernel = {.left_ns = ns};

	for (int i = 0; i < count; i++)
		call_launch(NULL, &kernel, ns);
}

static void engine_note(struct engine *e, int client)
{
	uint64_t gap = world.now - e->client[client].at;

	e->client[client].at = world.now;
	if (world.now < e->from)
		return;
	e->tokens++;
	if (e->gaps < GAPS_MOST)
		e->gap[e->gaps++] = gap;
}

static void engine_decode(struct engine *e)
{
	engine_kernels(1, 6 * MS);
	engine_kernels(100, 20 * US);
	call_synchronize();
	for (int i = 0; i < e->clients; i++) {
		if (!e->client[i].left)
			continue;
		engine_note(e, i);
		if (--e->client[i].left == 0)
			e->client[i].at += random_between(&e->random, 0, 400 * MS);
	}
}

static void engine_run(void *argument)
{
	struct engine *e = argument;

	call_use(0);
	for (;;) {
		bool runs = false;
		int waits = -1;

		for (int i = 0; i < e->clients; i++) {
			runs |= e->client[i].left != 0;
			if (!e->client[i].left && e->client[i].at <= world.now)
				waits = i;
		}
		if (waits >= 0) {
			engine_kernels(8, random_between(&e->random, 1 * MS, 4 * MS));
			call_synchronize();
			e->client[waits].left = (int)random_between(&e->random, 16, 64);
			e->client[waits].at = world.now;
		} else if (runs) {
			engine_decode(e);
		}
		thread_sleep_until(world.now + 700 * US);
	}
}

struct engines_result {
	double tokens[ENGINES], sum; /* in a second */
	double gap, gap_99;          /* between tokens, ms: the median, the 99th percentile */
};

static double engines_percentile(int percent)
{
	static uint64_t all[ENGINES * GAPS_MOST];
	size_t count = 0, at;

	for (int i = 0; i < ENGINES; i++) {
		memcpy(&all[count], engine[i].gap, engine[i].gaps * sizeof(*all));
		count += engine[i].gaps;
	}
	qsort(all, count, sizeof(*all), by_length);
	at = count * (size_t)percent / 100;
	return count ? (double)all[at] / 1e6 : 0;
}

/* A share of 100 with a cap: without shares. A share of 0: no such engine. */
static struct engines_result engines(int clients, double one, double other, int policy)
{
	const double shares[ENGINES] = {one, other};
	struct engines_result r = {.sum = 0};
	uint64_t seconds = 30;

	begin(20 * US, 1);
	for (int i = 0; i < ENGINES; i++) {
		engine[i] = (struct engine){
		    .clients = clients, .random = (uint64_t)i, .from = world.now + 2 * S};
		if (!(shares[i] > 0))
			continue;
		engine[i].process = process_create(world_job(), 1);
		process_set(engine[i].process, 0, shares[i], policy);
		thread_begin(engine[i].process, "engine", engine_run, &engine[i]);
	}
	world_run_until(engine[0].from + seconds * S);
	for (int i = 0; i < ENGINES; i++) {
		r.tokens[i] = (double)engine[i].tokens / (double)seconds;
		r.sum += r.tokens[i];
	}
	r.gap = engines_percentile(50);
	r.gap_99 = engines_percentile(99);
	ck_assert_uint_eq(world.misuse, 0);
	world_end();
	return r;
}

static void engines_tell(const char *way, const struct engines_result *r, double alone)
{
	if (getenv("TELL"))
		printf("   %-8s kept %5.1f, %5.1f %%, between tokens %.1f ms, p99 %.1f ms\n", way,
		       100 * r->tokens[0] / alone, 100 * r->tokens[1] / alone, r->gap, r->gap_99);
}

static const int clients[] = {2, 8, 32};
enum { CLIENTS = sizeof(clients) / sizeof(*clients) };

START_TEST(two_engines_keep_their_tokens)
{
	double alone = engines(clients[_i], 100, 0, POLICY_CAP).sum;
	struct engines_result none = engines(clients[_i], 100, 100, POLICY_CAP);
	struct engines_result equal = engines(clients[_i], 50, 50, POLICY_WEIGHT);
	struct engines_result uneven = engines(clients[_i], 70, 30, POLICY_WEIGHT);

	if (getenv("TELL"))
		printf("%d clients\n", clients[_i]);
	engines_tell("none", &none, alone);
	engines_tell("equal", &equal, alone);
	engines_tell("70:30", &uneven, alone);
	ck_assert_double_ge(equal.sum, 0.98 * none.sum);
	ck_assert_double_le(equal.gap_99, 1.1 * none.gap_99);
	ck_assert_double_ge(uneven.tokens[0], equal.tokens[0]);
}
END_TEST

/* The engine pauses 0.7 ms after each step, the training never. Each has half all the same. */
START_TEST(an_engine_keeps_its_share_beside_a_training)
{
	const struct program steps = {
	    .kernel_ns = 500 * US, .batch = 16, .waits = true, .pause_ns = 700 * US};
	const struct program training = {.kernel_ns = 1 * MS};
	struct result r;

	begin(50 * US, 1);
	add(&steps, 50, _i ? POLICY_WEIGHT : POLICY_CAP, 100 * S);
	add(&training, 50, _i ? POLICY_WEIGHT : POLICY_CAP, 100 * S);
	r = run(10);
	ck_assert_double_ge(r.work[0], 48);
	ck_assert_double_ge(r.work[1], 48);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("idle");

	tcase_set_timeout(tests, 60);
	suite_add_worlds(tests, two_equal_jobs_do_as_much_as_without_shares,
	                 LOADS * HAND_OVERS * WAYS);
	suite_add_worlds(tests, a_late_wake_costs_no_turn, 2 * WAYS);
	suite_add_worlds(tests, steps_alternate, 4);
	suite_add_worlds(tests, watchers_look_rarely, POLICIES);
	suite_add_worlds(tests, the_device_never_idles_beside_a_job_that_is_not_ahead,
	                 SEEDS * HAND_OVERS * POLICIES);
	suite_add_worlds(tests, two_engines_keep_their_tokens, CLIENTS);
	suite_add_worlds(tests, an_engine_keeps_its_share_beside_a_training, 2);
	return suite_run("pace_idle", tests);
}

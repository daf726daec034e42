/* SPDX-License-Identifier: MIT */
/*
 * Which memory is best on the host. Small cases are in a table, and random ones are compared with
 * all choices. The training of tests/bench/training.c is one case. The cost of a placement is
 * computed here once more, from the true properties of the kernels. The decision has to derive
 * these from their durations.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/modules/placement/weigh.h"
#include "suite.h"

enum { KERNELS = 512, USES = 4096, PIECES = 1024 };

/* A program as it is. */
static struct {
	struct weigh_kernel kernel[KERNELS];
	double computes[KERNELS]; /* ns */
	uint32_t use[USES];
	struct weigh_piece piece[PIECES];
	struct weigh_case given;
	double ns_of_byte;
} world;

static uint32_t order[PIECES];
static struct weigh_answer answer;

static void begin_world(double ns_of_byte)
{
	memset(&world, 0, sizeof(world));
	world.ns_of_byte = ns_of_byte;
	world.given.kernel = world.kernel;
	world.given.use = world.use;
	world.given.piece = world.piece;
	answer = (struct weigh_answer){.order = order};
}

static void add_kernel(uint64_t key, double computes)
{
	world.computes[world.given.kernels] = computes;
	world.kernel[world.given.kernels++] =
	    (struct weigh_kernel){.key = key, .first = (uint32_t)world.given.uses};
}

static void uses(uint32_t run)
{
	world.use[world.given.uses++] = run;
	world.kernel[world.given.kernels - 1].uses++;
}

static void add_run(unsigned int pieces, uint64_t bytes)
{
	for (; pieces; pieces--)
		world.piece[world.given.pieces++] =
		    (struct weigh_piece){.run = world.given.runs, .bytes = bytes, .read = bytes};
	world.given.runs++;
}

static bool uses_run(size_t k, uint32_t run)
{
	for (uint32_t i = 0; i < world.kernel[k].uses; i++) {
		if (world.use[world.kernel[k].first + i] == run)
			return true;
	}
	return false;
}

static double kernel_ns(size_t k, const bool *on_host)
{
	double link = 0;

	for (size_t i = 0; i < world.given.pieces; i++) {
		if (on_host[i] && uses_run(k, world.piece[i].run))
			link += (double)world.piece[i].read * world.ns_of_byte;
	}
	return fmax(world.computes[k], link);
}

static double cost(const bool *on_host)
{
	double sum = 0;

	for (size_t k = 0; k < world.given.kernels; k++)
		sum += kernel_ns(k, on_host);
	return sum;
}

static uint64_t bytes_on_host(const bool *on_host)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < world.given.pieces; i++)
		bytes += on_host[i] ? world.piece[i].bytes : 0;
	return bytes;
}

/* Has all kernels measured with memory where `now` says, and decides. */
static void decide(const bool *now, uint64_t spill)
{
	for (size_t i = 0; i < world.given.pieces; i++)
		world.piece[i].is_on_host = now[i];
	for (size_t k = 0; k < world.given.kernels; k++)
		world.kernel[k].ns = (uint64_t)kernel_ns(k, now);
	world.given.spill = spill;
	ck_assert(weigh_up(&world.given, &answer));
}

static void take_answer(bool *on_host)
{
	memset(on_host, 0, world.given.pieces * sizeof(*on_host));
	for (size_t i = 0; i < answer.spilled; i++)
		on_host[order[i]] = true;
}

/* Each piece is in the order once, and as many as needed are spilled, not one more. */
static void ck_assert_is_valid(void)
{
	bool seen[PIECES] = {false};
	uint64_t bytes = 0;

	for (size_t i = 0; i < world.given.pieces; i++) {
		ck_assert_uint_lt(order[i], world.given.pieces);
		ck_assert(!seen[order[i]]);
		seen[order[i]] = true;
		if (i < answer.spilled)
			ck_assert_uint_lt(bytes, world.given.spill);
		if (i < answer.spilled)
			bytes += world.piece[order[i]].bytes;
	}
	ck_assert_uint_ge(bytes, world.given.spill);
}

/* --- small cases --- */

START_TEST(what_nobody_uses_leaves_first)
{
	bool now[PIECES] = {false};

	begin_world(1);
	add_run(2, 100);
	add_run(1, 100);
	add_kernel(1, 1000);
	uses(0);
	decide(now, 100);
	ck_assert_uint_eq(answer.spilled, 1);
	ck_assert_uint_eq(order[0], 2);
}
END_TEST

/* Of two runs one is used three times a step, of two halves of a run one kernel reads both. */
START_TEST(what_is_used_seldom_leaves_before_what_is_used_often)
{
	bool now[PIECES] = {false};

	begin_world(10);
	add_run(1, 100);
	add_run(1, 100);
	now[0] = true;
	for (int i = 0; i < 3; i++) {
		add_kernel(1, 10);
		uses(0);
	}
	add_kernel(2, 10);
	uses(1);
	decide(now, 100);
	ck_assert_uint_eq(order[0], 1);
	ck_assert(fabs(answer.now - 3010) < 1);
	ck_assert(answer.then < answer.now);
}
END_TEST

/*
 * A kernel of which a large piece leaves is as slow as one of which a small one does: bytes count.
 */
START_TEST(it_is_by_byte)
{
	bool now[PIECES] = {false};

	begin_world(1);
	add_run(1, 400);
	add_run(1, 100);
	add_kernel(1, 0);
	uses(0);
	for (int i = 0; i < 2; i++) {
		add_kernel(2, 0);
		uses(1);
	}
	now[0] = now[1] = true;
	decide(now, 100);
	ck_assert_uint_eq(order[0], 0);
}
END_TEST

/*
 * Eight kernels have slack for one piece each; the eight pieces first on the host are all of two.
 */
START_TEST(it_is_spread_over_kernels_with_slack)
{
	bool now[PIECES] = {false}, then[PIECES];

	begin_world(1);
	for (uint32_t run = 0; run < 8; run++) {
		add_run(4, 100);
		add_kernel(run % 2, 100);
		uses(run);
	}
	for (int i = 0; i < 8; i++)
		now[i] = true;
	decide(now, 800);
	ck_assert_is_valid();
	take_answer(then);
	ck_assert(fabs(cost(now) - 1400) < 1);
	ck_assert(fabs(cost(then) - 800) < 1);
	ck_assert(fabs(answer.now - 1400) < 1);
	ck_assert(fabs(answer.then - 800) < 1);
	ck_assert(fabs(answer.least - 800) < 1);
	ck_assert(fabs(answer.unknown) < 1);
}
END_TEST

/* A kernel that reads a tenth of its memory is taken to do so wherever that is. */
START_TEST(what_is_read_in_part_costs_in_part)
{
	bool now[PIECES] = {false};
	double ns_of_byte = 10;

	begin_world(ns_of_byte);
	for (uint32_t run = 0; run < 4; run++)
		add_run(1, 1000);
	for (uint32_t run = 0; run < 4; run++) {
		add_kernel(run < 2 ? 1 : 2, 10);
		uses(run);
	}
	world.piece[0].read = world.piece[1].read = 100;
	now[0] = now[2] = true;
	decide(now, 2000);
	/* The decision is not told that it is a part. */
	world.piece[0].read = world.piece[1].read = 1000;
	ck_assert(weigh_up(&world.given, &answer));
	ck_assert((order[0] == 0 && order[1] == 1) || (order[0] == 1 && order[1] == 0));
}
END_TEST

/*
 * Memory of the host that no cache keeps: a kernel that reads its memory 30 times waits for 30
 * times its bytes, more than 20 kernels that read theirs once. It stays on the device.
 */
START_TEST(what_is_read_again_costs_as_often)
{
	enum { AGAIN = 30, ONCE = 20 };
	bool now[PIECES] = {false};

	begin_world(10);
	for (uint32_t run = 0; run < 4; run++)
		add_run(1, 1000);
	for (uint32_t run = 0; run < 2; run++) {
		add_kernel(1, 10);
		uses(run);
	}
	for (int i = 0; i < 2 * ONCE; i++) {
		add_kernel(2, 10);
		uses(2 + i % 2);
	}
	world.piece[0].read = world.piece[1].read = AGAIN * 1000;
	now[0] = now[2] = true;
	decide(now, 2000);
	/* The decision is told of each piece's size alone. */
	world.piece[0].read = world.piece[1].read = 1000;
	ck_assert(weigh_up(&world.given, &answer));
	ck_assert(order[0] >= 2 && order[1] >= 2);
}
END_TEST

/* Nobody knows how long kernels take: how often memory is used decides, and bytes are the cost. */
START_TEST(without_times_it_is_by_frequency)
{
	begin_world(1);
	add_run(1, 100);
	add_run(1, 100);
	for (int i = 0; i < 5; i++) {
		add_kernel(1, 0);
		uses(0);
		if (i < 2)
			uses(1);
	}
	world.piece[0].is_on_host = true;
	world.given.spill = 100;
	ck_assert(weigh_up(&world.given, &answer));
	ck_assert_uint_eq(order[0], 1);
	ck_assert(fabs(answer.now - 500) < 1);
	ck_assert(fabs(answer.then - 200) < 1);
	ck_assert(fabs(answer.least) < 1);
	ck_assert(fabs(answer.unknown - answer.now) < 1);
}
END_TEST

START_TEST(nothing_has_to_leave)
{
	bool now[PIECES] = {false};

	begin_world(1);
	add_run(3, 100);
	add_kernel(1, 50);
	uses(0);
	decide(now, 0);
	ck_assert_uint_eq(answer.spilled, 0);
	ck_assert(fabs(answer.then - 50) < 1);
	ck_assert_is_valid();
}
END_TEST

START_TEST(there_is_nothing)
{
	begin_world(1);
	ck_assert(weigh_up(&world.given, &answer));
	ck_assert_uint_eq(answer.spilled, 0);
}
END_TEST

/* --- random ones --- */

static double random_up_to(unsigned int *seed, double most)
{
	return most * rand_r(seed) / RAND_MAX;
}

static void make_random(unsigned int *seed, int kernels, int runs, int uses_most)
{
	begin_world(1);
	for (int i = 0; i < runs; i++)
		add_run(1 + (unsigned int)rand_r(seed) % 2, 100);
	for (int k = 0; k < kernels; k++) {
		add_kernel((uint64_t)k, random_up_to(seed, 300));
		for (uint32_t run = (uint32_t)rand_r(seed) % (uint32_t)runs, i = 0;
		     i < 1 + (uint32_t)rand_r(seed) % (uint32_t)uses_most; i++)
			uses((run + i) % world.given.runs);
	}
}

/* Returns the least that any choice of so many bytes costs. */
static double best_of_all(uint64_t spill)
{
	double best = INFINITY;

	for (uint32_t chosen = 0; chosen < 1U << world.given.pieces; chosen++) {
		bool on_host[PIECES];

		for (size_t i = 0; i < world.given.pieces; i++)
			on_host[i] = chosen >> i & 1;
		if (bytes_on_host(on_host) >= spill)
			best = fmin(best, cost(on_host));
	}
	return best;
}

/*
 * What was measured with nothing on the host says what kernels compute, but not how fast the link
 * is; so what is true of the link is said by two launches of a kernel that has nothing to compute.
 */
static void tell_link(bool *now)
{
	add_run(1, 100);
	add_kernel(~0ull, 1);
	add_kernel(~0ull, 1);
	uses(world.given.runs - 1);
	now[world.given.pieces - 1] = true;
}

/* Where each run has one kernel it is the best there is: no choice takes another's slack. */
START_TEST(with_one_kernel_each_it_is_the_best)
{
	for (unsigned int seed = 1; seed <= 300; seed++) {
		bool now[PIECES] = {false}, then[PIECES];
		unsigned int s = seed;
		uint64_t spill;

		begin_world(1);
		for (uint32_t run = 0; run < 4; run++) {
			add_run(1 + (unsigned int)rand_r(&s) % 3, 100);
			add_kernel(run, random_up_to(&s, 300));
			uses(run);
		}
		tell_link(now);
		spill = 100 * (1 + (uint64_t)rand_r(&s) % world.given.pieces);
		decide(now, spill);
		ck_assert_is_valid();
		take_answer(then);
		ck_assert_double_le(cost(then), best_of_all(spill) * 1.001 + 0.01);
	}
}
END_TEST

/*
 * Where kernels share memory it is near the best: a twentieth on average, and never half as much
 * again.
 */
START_TEST(with_shared_memory_it_is_near_the_best)
{
	double sum = 0, worst = 0;
	int cases = 0;

	for (unsigned int seed = 1; seed <= 300; seed++, cases++) {
		bool now[PIECES] = {false}, then[PIECES];
		unsigned int s = seed;
		uint64_t spill;
		double ratio;

		make_random(&s, 6, 6, 3);
		tell_link(now);
		spill = 100 * (1 + (uint64_t)rand_r(&s) % world.given.pieces);
		decide(now, spill);
		ck_assert_is_valid();
		take_answer(then);
		ck_assert(fabs(answer.then - cost(then)) < 0.01 * cost(then) + 1);
		ratio = cost(then) / best_of_all(spill);
		sum += ratio;
		worst = fmax(worst, ratio);
	}
	ck_assert_double_le(sum / cases, 1.05);
	ck_assert_double_le(worst, 1.5);
}
END_TEST

/* --- the training --- */

enum { LAYERS = 50, FORWARD = 1, BACKWARD, OPTIMISE };
/* Runs, in the order of allocation. */
enum {
	INPUT,
	WEIGHTS,
	ACTIVATION = WEIGHTS + LAYERS,
	HANDED = ACTIVATION + LAYERS,
	GRADIENT = HANDED + 2,
	MOMENT = GRADIENT + LAYERS,
	RUNS = MOMENT + 2 * LAYERS,
};

#define MIB ((uint64_t)1 << 20)
#define MS  1e6

static void make_training(double compute_ns, double ns_of_byte)
{
	begin_world(ns_of_byte);
	for (int i = 0; i < RUNS; i++)
		add_run(2, 2 * MIB);
	for (uint32_t l = 0; l < LAYERS; l++) {
		add_kernel(FORWARD, compute_ns);
		uses(WEIGHTS + l);
		uses(l ? ACTIVATION + l - 1 : INPUT);
		uses(ACTIVATION + l);
	}
	for (uint32_t l = LAYERS; l-- > 0;) {
		add_kernel(BACKWARD, compute_ns);
		uses(WEIGHTS + l);
		uses(ACTIVATION + l);
		uses(HANDED);
		uses(HANDED + 1);
		uses(GRADIENT + l);
	}
	for (uint32_t l = 0; l < LAYERS; l++) {
		add_kernel(OPTIMISE, compute_ns);
		uses(WEIGHTS + l);
		uses(GRADIENT + l);
		uses(MOMENT + 2 * l);
		uses(MOMENT + 2 * l + 1);
	}
}

static const struct {
	double compute_ms, ns_of_byte; /* a kernel reads 16 MiB of the device in a millisecond */
	int percent;                   /* of the pieces on the device */
	double most;                   /* times as long as with nothing on the host */
} trainings[] = {
    /* Limited by memory, a link of 1/19. */
    {1, 19 * MS / 16 / MIB, 90, 1.47},
    {1, 19 * MS / 16 / MIB, 75, 2.66},
    {1, 19 * MS / 16 / MIB, 50, 5.15},
    {1, 19 * MS / 16 / MIB, 25, 10.5},
    {1, 38 * MS / 16 / MIB, 75, 4.66},
    /* Computing takes eight times as long as memory does; links of 1/40 and of 1/19. */
    {8, 40 * MS / 16 / MIB, 90, 1.02},
    {8, 40 * MS / 16 / MIB, 75, 1.12},
    {8, 19 * MS / 16 / MIB, 90, 1.00001},
    {8, 19 * MS / 16 / MIB, 75, 1.00001},
    {8, 19 * MS / 16 / MIB, 25, 1.4},
};

/* From where memory is by the order of allocation, and from where it is by chance. */
START_TEST(the_training_is_as_fast_as_can_be)
{
	double compute = trainings[_i].compute_ms * MS;
	bool now[PIECES] = {false}, then[PIECES];
	size_t stay = ((size_t)RUNS * 2 * (size_t)trainings[_i].percent + 99) / 100;
	double first, unlimited;
	unsigned int seed = 1;

	make_training(compute, trainings[_i].ns_of_byte);
	unlimited = cost(now);
	for (size_t i = stay; i < world.given.pieces; i++)
		now[i] = true;
	decide(now, bytes_on_host(now));
	ck_assert_is_valid();
	take_answer(then);
	first = cost(then);
	ck_assert_double_le(first, trainings[_i].most * unlimited);
	ck_assert_double_le(first, cost(now) * 1.00001);
	for (size_t i = 0; i < world.given.pieces; i++) {
		size_t other = (size_t)rand_r(&seed) % world.given.pieces;
		bool was = now[i];

		now[i] = now[other];
		now[other] = was;
	}
	decide(now, bytes_on_host(now));
	take_answer(then);
	ck_assert_double_le(cost(then), first * 1.02);
}
END_TEST

/* Some kernels took longer than the link explains, because the machine had other things to do. */
START_TEST(a_machine_that_is_busy_hides_no_gain)
{
	bool now[PIECES] = {false}, then[PIECES];
	unsigned int seed = 1;
	double first;

	make_training(MS, 19 * MS / 16 / MIB);
	for (size_t i = (size_t)RUNS / 2; i < world.given.pieces; i++)
		now[i] = true;
	decide(now, bytes_on_host(now));
	take_answer(then);
	first = cost(then);
	for (size_t k = 0; k < world.given.kernels; k++) {
		if (rand_r(&seed) % 8 == 0)
			world.kernel[k].ns = (uint64_t)((double)world.kernel[k].ns *
			                                (1.1 + random_up_to(&seed, 0.5)));
	}
	ck_assert(weigh_up(&world.given, &answer));
	ck_assert_double_lt(answer.then, answer.now * 0.85);
	take_answer(then);
	ck_assert_double_le(cost(then), first * 1.03);
}
END_TEST

/* --- beside other programs --- */

enum { TURN_NS = 2000000, OTHERS = 2 };

/*
 * Has kernels measured that take turns with those of two other programs: after each turn of theirs
 * those have one each, of half a millisecond or of two. The lower of two measurements counts.
 */
static void take_turns(unsigned int *seed)
{
	for (size_t k = 0; k < world.given.kernels; k++) {
		double alone = (double)world.kernel[k].ns, least = INFINITY;

		for (int times = 0; times < 2; times++) {
			double took = alone;

			for (int turns = OTHERS * (int)ceil(alone / TURN_NS); turns; turns--)
				took += rand_r(seed) % 2 ? TURN_NS : TURN_NS / 4.0;
			least = fmin(least, took);
		}
		world.kernel[k].ns = (uint64_t)least;
	}
	world.given.is_shared = true;
}

/* Returns how many turns all kernels need. */
static int turns(const bool *on_host)
{
	int sum = 0;

	for (size_t k = 0; k < world.given.kernels; k++)
		sum += (int)ceil(kernel_ns(k, on_host) / TURN_NS);
	return sum;
}

/*
 * A job whose buffers are two pieces each, as tests/bench/sharer.c: who has both of a buffer on the
 * host needs two turns for it. All leave by halves, wherever they were before, and then stay.
 */
START_TEST(beside_others_all_is_spread_once)
{
	enum { BUFFERS = 76, PIECE = 2 << 20 };
	bool now[PIECES] = {false}, then[PIECES];
	unsigned int seed = (unsigned int)_i;
	size_t on_host = BUFFERS / 2 + (size_t)rand_r(&seed) % (BUFFERS / 2);

	begin_world(1e9 / (1 << 30));
	for (uint32_t i = 0; i < BUFFERS; i++) {
		add_run(2, PIECE);
		add_kernel(1, TURN_NS / 4.0);
		uses(i);
	}
	for (size_t i = 0; i < on_host; i++)
		now[(2 * (size_t)BUFFERS - 1 - i) % world.given.pieces] = true;
	decide(now, on_host * PIECE);
	take_turns(&seed);
	ck_assert(weigh_up(&world.given, &answer));
	ck_assert_is_valid();
	take_answer(then);
	ck_assert_int_eq(turns(then), BUFFERS);
	/* What is gained is worth moving, by the bar of placement.c, ... */
	ck_assert_double_ge(answer.now - answer.then, 0.05 * (answer.now - answer.least));
	decide(then, on_host * PIECE);
	take_turns(&seed);
	ck_assert(weigh_up(&world.given, &answer));
	/* ... and then nothing is. */
	ck_assert_double_le(answer.now - answer.then, 0.05 * (answer.now - answer.least));
}
END_TEST

/* Once it is as decided, deciding again finds nothing to gain. */
START_TEST(it_is_left_alone_then)
{
	bool now[PIECES] = {false}, then[PIECES];
	size_t stay = ((size_t)RUNS * 2 * (size_t)trainings[_i].percent + 99) / 100;

	make_training(trainings[_i].compute_ms * MS, trainings[_i].ns_of_byte);
	for (size_t i = stay; i < world.given.pieces; i++)
		now[i] = true;
	decide(now, bytes_on_host(now));
	take_answer(then);
	decide(then, bytes_on_host(then));
	ck_assert_double_ge(answer.then, answer.now * 0.99);
}
END_TEST

/* What leaves with a lower limit leaves besides what has left with a higher one. */
START_TEST(a_lower_limit_adds_to_what_leaves)
{
	static uint32_t before[PIECES];
	bool now[PIECES] = {false};

	make_training(MS, 19 * MS / 16 / MIB);
	for (size_t i = 400; i < world.given.pieces; i++)
		now[i] = true;
	decide(now, 50 * 2 * MIB);
	memcpy(before, order, sizeof(order));
	decide(now, 300 * 2 * MIB);
	ck_assert_mem_eq(before, order, world.given.pieces * sizeof(*order));
}
END_TEST

/*
 * Kernels are given a buffer on the host of which most read a part that needs no time: the link is
 * as slow as those have it that waited, and not as quick as a kernel that the machine has slowed.
 */
START_TEST(the_link_is_known_by_those_that_wait)
{
	struct weigh_known known[KERNELS];
	double ns_of_byte = 0;

	begin_world(1);
	add_run(3, 2 << 20);
	for (uint64_t key = 0; key < 24; key++) {
		add_kernel(key < 2 ? 7 : key, 0); /* two are alike */
		uses(0);
		world.kernel[key].ns = key == 1 ? 1440000 : key < 22 ? 1180000 : 40000000;
	}
	for (size_t i = 0; i < world.given.pieces; i++)
		world.piece[i].is_on_host = true;
	ck_assert(weigh_learn(&world.given, known, &ns_of_byte));
	ck_assert_double_eq_tol(ns_of_byte, 40e6 / (3 * (2 << 20)), 0.01);
	ck_assert_double_eq_tol(known[23].factor, 1, 0.01);
}
END_TEST

int main(void)
{
	int count = sizeof(trainings) / sizeof(*trainings);
	TCase *tests = tcase_create("weigh");

	tcase_add_test(tests, what_nobody_uses_leaves_first);
	tcase_add_test(tests, what_is_used_seldom_leaves_before_what_is_used_often);
	tcase_add_test(tests, it_is_by_byte);
	tcase_add_test(tests, it_is_spread_over_kernels_with_slack);
	tcase_add_test(tests, what_is_read_in_part_costs_in_part);
	tcase_add_test(tests, what_is_read_again_costs_as_often);
	tcase_add_test(tests, without_times_it_is_by_frequency);
	tcase_add_test(tests, nothing_has_to_leave);
	tcase_add_test(tests, there_is_nothing);
	tcase_add_test(tests, with_one_kernel_each_it_is_the_best);
	tcase_add_test(tests, with_shared_memory_it_is_near_the_best);
	tcase_add_loop_test(tests, the_training_is_as_fast_as_can_be, 0, count);
	tcase_add_test(tests, a_machine_that_is_busy_hides_no_gain);
	tcase_add_loop_test(tests, beside_others_all_is_spread_once, 0, 50);
	tcase_add_loop_test(tests, it_is_left_alone_then, 0, count);
	tcase_add_test(tests, a_lower_limit_adds_to_what_leaves);
	tcase_add_test(tests, the_link_is_known_by_those_that_wait);
	return suite_run("weigh", tests);
}

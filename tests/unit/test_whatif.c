/* SPDX-License-Identifier: MIT */
/*
 * Predictions: records are read strictly. The model predicts for the recorded limit the time that
 * was measured there, and never that more memory makes a step longer.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "tools/whatif/model.h"

enum { LAYERS = 12, KERNELS = 2 * LAYERS, MIB = 1 << 20 };

/* A program: each layer has a run of two pieces of 2 MiB; a kernel of a step reads two runs. */
static struct {
	double computes[KERNELS]; /* ns */
	bool on_host[2 * LAYERS];
	double ns_of_byte;
	double gap; /* ns between kernels */
	uint64_t fixed, limit;
} world;

static char text_of[1 << 16];

static double kernel_ns(unsigned int k)
{
	double link = 0;

	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int piece = 0; piece < 2; piece++)
			if (world.on_host[2 * ((k + i) % LAYERS) + piece])
				link += 2.0 * MIB * world.ns_of_byte;
	return world.computes[k] > link ? world.computes[k] : link;
}

static void add(const char *format, unsigned long long a, unsigned long long b,
                unsigned long long c, unsigned long long d)
{
	size_t length = strlen(text_of);

	snprintf(text_of + length, sizeof(text_of) - length, format, a, b, c, d);
}

/* Writes the record of the world as a survey would. */
static double write_world(void)
{
	double at = 0, step = 0;

	*text_of = '\0';
	strcat(text_of, "spillway-record 1\njob bert\nspillway-survey 1\nname A GPU\n");
	add("gpu 0 %llu 7\nlimit %llu\nheld %llu\n", 1ull << 30, world.limit,
	    world.fixed + 2ull * LAYERS * 2 * MIB, 0);
	add("link 0 0\nhow 2 0 0\npieces %llu\n", 2ull * LAYERS, 0, 0, 0);
	for (unsigned int i = 0; i < 2 * LAYERS; i++)
		add("%llu %llu %llu %llu\n", i / 2, world.on_host[i], 2 * MIB, 2 * MIB);
	add("kernels %llu\n", 2 * KERNELS, 0, 0, 0);
	for (unsigned int k = 0; k < 2 * KERNELS; k++) {
		double ns = kernel_ns(k % KERNELS);

		step = k == KERNELS ? at : step;
		add("%llu %llu %llu 2", k % KERNELS, (unsigned long long)ns, (unsigned long long)at,
		    0);
		add(" %llu %llu\n", k % LAYERS, (k + 1) % LAYERS, 0, 0);
		at += ns + world.gap;
	}
	strcat(text_of, "end\n");
	return step;
}

static void open_world(struct records *records, struct model *model)
{
	char message[200] = "";

	ck_assert_msg(records_parse(records, text_of, message, sizeof(message)), "%s", message);
	ck_assert_int_eq(records->count, 1);
	ck_assert_str_eq(records->job, "bert");
	ck_assert_str_eq(records->gpu[0].name, "A GPU");
	model_make(model, &records->gpu[0]);
}

static void close_world(struct records *records, struct model *model)
{
	model_free(model);
	records_free(records);
}

static struct model_answer ask(const struct model *model, uint64_t limit, double link, double share)
{
	struct model_question question = {.limit = limit, .link = link, .share = share};
	struct model_answer answer;

	model_ask(model, &question, &answer);
	ck_assert(answer.low_ns <= answer.step_ns && answer.step_ns <= answer.high_ns);
	return answer;
}

/* A world by chance: kernels of 0.1 to 2 ms, a link of 0.5 to 4 GB/s, some memory on the host. */
static void make_world(unsigned int seed)
{
	memset(&world, 0, sizeof(world));
	srand(seed);
	for (unsigned int k = 0; k < KERNELS; k++)
		world.computes[k] = 100000 + rand() % 1900000;
	world.ns_of_byte = 0.25 + rand() % 100 / 100.0 * 1.75;
	world.gap = 1000;
	world.fixed = 8 * MIB;
	world.limit = UINT64_MAX;
}

static void ck_assert_near(double a, double b, double part)
{
	ck_assert_msg(a <= b * (1 + part) && a >= b * (1 - part), "%.0f, expected %.0f", a, b);
}

START_TEST(the_recorded_limit_is_exact)
{
	struct records records;
	struct model model;
	uint64_t host = 0;
	double step;

	make_world((unsigned int)_i);
	for (unsigned int i = 0; i < 2 * LAYERS; i++) {
		world.on_host[i] = rand() % 3 == 0;
		host += world.on_host[i] ? 2 * MIB : 0;
	}
	step = write_world();
	open_world(&records, &model);
	ck_assert_near(model.step_ns, step, 0.001);
	if (host) {
		struct model_answer answer = ask(&model, model_held(&model) - host, 0, 1);

		if (!answer.is_moved)
			ck_assert_near(answer.step_ns, step, 0.001);
		else
			ck_assert(answer.step_ns < step);
		ck_assert_uint_eq(answer.host, host);
	}
	close_world(&records, &model);
}
END_TEST

START_TEST(less_memory_never_helps)
{
	struct records records;
	struct model model;
	double before = 0;

	make_world((unsigned int)_i);
	write_world();
	open_world(&records, &model);
	ck_assert_int_eq(model.source, LINK_MODELLED);
	ck_assert(!model.has_graph);
	for (uint64_t limit = model_held(&model); limit > world.fixed; limit -= 2 * MIB) {
		struct model_answer answer = ask(&model, limit, 1e9 / world.ns_of_byte, 1);

		/* Where the placer just does not move, the next limit may be better. */
		ck_assert(answer.step_ns >= before * 0.95);
		ck_assert_uint_eq(answer.host, model_held(&model) - limit);
		ck_assert(answer.is_possible);
		before = answer.step_ns;
	}
	ck_assert(!ask(&model, world.fixed - 1, 0, 1).is_possible);
	close_world(&records, &model);
}
END_TEST

/* What is learned with memory on the host holds elsewhere: the world is asked what it would do. */
START_TEST(other_places_are_predicted)
{
	struct records records;
	struct model model;
	struct model_answer answer;
	double step;

	make_world((unsigned int)_i);
	write_world();
	open_world(&records, &model);
	answer = ask(&model, model_held(&model) - 8 * MIB, 1e9 / world.ns_of_byte, 1);
	/* Allocated in order: the last four pieces are on the host. */
	for (unsigned int i = 2 * LAYERS - 4; i < 2 * LAYERS; i++)
		world.on_host[i] = true;
	step = write_world();
	if (!answer.is_moved)
		ck_assert_near(answer.step_ns, step, 0.01);
	else
		ck_assert(answer.step_ns < step);
	ck_assert(answer.high_ns >= step * 0.999);
	close_world(&records, &model);
}
END_TEST

START_TEST(limits_are_recommended)
{
	struct records records;
	struct model model;
	struct model_question question = {.link = 2e9, .share = 1};
	uint64_t smallest, knee;

	make_world((unsigned int)_i);
	write_world();
	open_world(&records, &model);
	smallest = model_smallest(&model, &question, 0.1);
	knee = model_knee(&model, &question);
	ck_assert(ask(&model, smallest, 2e9, 1).times <= 1.1 + 1e-6);
	ck_assert(smallest <= model_held(&model) && smallest >= world.fixed);
	ck_assert(knee <= model_held(&model) && knee >= world.fixed);
	ck_assert(model_smallest(&model, &question, 0.5) <= smallest);
	close_world(&records, &model);
}
END_TEST

START_TEST(shares_and_neighbours)
{
	struct records records;
	struct model model;
	struct model_answer half, one, other;

	make_world(1);
	write_world();
	open_world(&records, &model);
	half = ask(&model, UINT64_MAX, 0, 0.5);
	ck_assert_near(half.step_ns, model.kernels_ns * 2, 0.001);
	ck_assert_near(half.busy, 0.5, 0.001);
	one = other = ask(&model, UINT64_MAX, 0, 1);
	ck_assert(one.busy > 0.9);
	model_beside(&one, &other);
	ck_assert_near(one.step_ns, model.kernels_ns * 2, 0.001);
	ck_assert_near(other.step_ns, one.step_ns, 0.001);
	/* One that needs little has all it needs. */
	one = ask(&model, UINT64_MAX, 0, 0.2);
	other = ask(&model, UINT64_MAX, 0, 1);
	model_beside(&one, &other);
	ck_assert_near(one.busy, 0.2, 0.001);
	ck_assert_near(other.busy, 0.8, 0.001);
	close_world(&records, &model);
}
END_TEST

/* Returns whether a record with these launches and kernels is read. has: it has graphs. */
static bool reads(const char *launches, bool *has)
{
	struct records records;
	struct model model;
	char message[200];

	*text_of = '\0';
	strcat(text_of, "spillway-record 1\njob bert\nspillway-survey 2\nname A GPU\n");
	strcat(text_of, "gpu 0 1000 7\nlimit 1000\nheld 300\nlink 0 0\nhow 2 0 0\npieces 2\n");
	strcat(text_of, "0 0 100 100\n1 0 200 200\n");
	strcat(text_of, launches);
	if (!records_parse(&records, text_of, message, sizeof(message)))
		return false;
	records_free(&records);
	open_world(&records, &model);
	*has = model.has_graph;
	close_world(&records, &model);
	return true;
}

/* A launch that is a graph is told apart: the model knows little of its kernels. */
START_TEST(graphs_are_told_apart)
{
	static const char two[] = "kernels 2\n5 900 0 2 0 1\n5 900 1000 2 0 1\n";
	char text[300];
	bool has;

	snprintf(text, sizeof(text), "%send\n", two);
	ck_assert(reads(text, &has) && has); /* by its part of the step alone */
	snprintf(text, sizeof(text), "%snodes\n0 0 0 1 8\n1 0 0 1 8\nend\n", two);
	ck_assert(reads(text, &has) && !has);
	snprintf(text, sizeof(text), "%snodes\n0 0 0\n0 1 8\n1 0 0 1 8\nend\n", two);
	ck_assert(reads(text, &has) && has);
	/* No such launch, no such run, half a line. */
	snprintf(text, sizeof(text), "%snodes\n2 0 0\nend\n", two);
	ck_assert(!reads(text, &has));
	snprintf(text, sizeof(text), "%snodes\n0 2 0\nend\n", two);
	ck_assert(!reads(text, &has));
	snprintf(text, sizeof(text), "%snodes\n0 0\nend\n", two);
	ck_assert(!reads(text, &has));
}
END_TEST

/*
 * A graph of kernels by chance: each reads two of three tensors of 4 MiB in a pool, which is free
 * behind them, and computes for a time of which the sum alone is measured. The step is within the
 * range, wherever the memory is that has to leave.
 */
START_TEST(the_range_of_a_graph_holds)
{
	enum { NODES = 8, PIECES = 16 };
	const double link = 1e9;
	double computes[NODES], step = 0, all = 0;
	bool on_host[PIECES] = {false};
	unsigned int reads[NODES][2], leaves;
	struct records records;
	struct model model;
	struct model_answer answer;

	srand((unsigned int)_i);
	*text_of = '\0';
	strcat(text_of, "spillway-record 1\njob bert\nspillway-survey 2\nname A GPU\n");
	add("gpu 0 %llu 7\nlimit %llu\nheld %llu\nlink 0 0\n", 1ull << 30, 1ull << 30,
	    PIECES * 2 * MIB, 0);
	add("how 2 0 0\npieces %llu\n", PIECES, 0, 0, 0);
	for (int i = 0; i < PIECES; i++)
		add("0 0 %llu %llu\n", 2 * MIB, 2 * MIB, 0, 0);
	for (int k = 0; k < NODES; k++) {
		computes[k] = rand() % 3 * 1e6;
		all += computes[k];
	}
	add("kernels 2\n5 %llu 0 1 0\n5 %llu %llu 1 0\nnodes\n", (unsigned long long)all,
	    (unsigned long long)all, (unsigned long long)all, 0);
	for (int k = 0; k < NODES; k++) {
		reads[k][0] = (unsigned int)rand() % 2;
		reads[k][1] = reads[k][0] + 1;
	}
	for (int k = 0; k < 2 * NODES; k++)
		add("%llu 0 %llu 0 %llu\n", k / NODES, reads[k % NODES][0] * 4ull * MIB,
		    reads[k % NODES][1] * 4ull * MIB, 0);
	strcat(text_of, "end\n");
	open_world(&records, &model);
	ck_assert(model.has_graph);
	leaves = 1 + (unsigned int)rand() % (PIECES - 1);
	answer = ask(&model, model_held(&model) - leaves * 2ull * MIB, link, 1);
	for (unsigned int left = leaves; left;) {
		unsigned int piece = (unsigned int)rand() % PIECES;

		left -= !on_host[piece];
		on_host[piece] = true;
	}
	for (int k = 0; k < NODES; k++) {
		double ns = 0;

		for (int i = 0; i < 2; i++)
			ns += (on_host[2 * reads[k][i]] + on_host[2 * reads[k][i] + 1]) * 2.0 *
			      MIB / link * 1e9;
		step += computes[k] > ns ? computes[k] : ns;
	}
	ck_assert_msg(answer.low_ns <= step * 1.001 && step <= answer.high_ns * 1.001,
	              "%.0f, expected %.0f to %.0f", step, answer.low_ns, answer.high_ns);
	close_world(&records, &model);
}
END_TEST

/*
 * Kernels of a graph share an address for tensors of unlike lengths. A kernel reads there as much
 * as of its other tensor, or as the next kernel with that address does of its own. Two of the four
 * here have one of 1 MiB, then two one of 9 MiB: 1 + 9 + 9 + 9 MiB are read.
 */
START_TEST(an_address_has_several_lengths)
{
	static const unsigned int other[] = {18, 19, 0, 9}; /* MiB */
	struct records records;
	struct model model;
	struct model_answer answer;

	*text_of = '\0';
	strcat(text_of, "spillway-record 1\njob bert\nspillway-survey 2\nname A GPU\n");
	add("gpu 0 %llu 7\nlimit %llu\nheld %llu\nlink 0 0\n", 1ull << 30, 1ull << 30, 36 * MIB, 0);
	add("how 2 0 1\npieces 2\n0 0 %llu %llu\n1 0 %llu %llu\n", 20 * MIB, 20 * MIB, 16 * MIB,
	    16 * MIB);
	strcat(text_of, "kernels 2\n5 1000 0 2 0 1\n5 1000 1000 2 0 1\nnodes\n");
	for (unsigned int k = 0; k < 8; k++)
		add("%llu 0 %llu 1 0\n", k / 4, other[k % 4] * 1ull * MIB, 0, 0);
	strcat(text_of, "end\n");
	open_world(&records, &model);
	answer = ask(&model, 20 * MIB, 1e9, 1);
	ck_assert_uint_eq(answer.host, 16 * MIB);
	ck_assert_near(answer.bus, 28.0 * MIB, 0.001);
	close_world(&records, &model);
}
END_TEST

/*
 * A graph that comes again exactly after two steps is counted as two, unless its launches are
 * kernels, which may be layers of one step.
 */
START_TEST(alike_graphs_are_steps)
{
	struct records records;
	struct model model;

	*text_of = '\0';
	strcat(text_of, "spillway-record 1\njob bert\nspillway-survey 2\nname A GPU\n");
	strcat(text_of, "gpu 0 1000 7\nlimit 1000\nheld 300\nlink 0 0\nhow 2 0 0\npieces 2\n");
	strcat(text_of, "0 0 100 100\n1 0 200 200\nkernels 8\n");
	for (unsigned int k = 0; k < 8; k++)
		add("%llu 1000 %llu 1 %llu\n", 5 + k % 2, 1000ull * k, k / 2 % 2, 0);
	strcat(text_of, "nodes\n");
	for (unsigned int k = 0; k < 8; k++) {
		add("%llu %llu 0\n", k, k / 2 % 2, 0, 0);
		if (_i && k % 2)
			add("%llu %llu 8\n", k, k / 2 % 2, 0, 0);
	}
	strcat(text_of, "end\n");
	open_world(&records, &model);
	ck_assert_near(model.step_ns, _i ? 2000 : 4000, 0.001);
	close_world(&records, &model);
}
END_TEST

/*
 * A program without steps: its prediction is of the kernels alone, for all that was measured. The
 * pauses between them stay as they are, whatever the share.
 */
START_TEST(without_steps)
{
	struct records records;
	struct model model;
	struct model_answer whole, half;
	char *how;

	make_world(2);
	world.gap = 1e6;
	write_world();
	how = strstr(text_of, "how 2");
	how[4] = '0';
	open_world(&records, &model);
	ck_assert(model.step_ns > model.kernels_ns * 1.5);
	whole = ask(&model, UINT64_MAX, 0, 1);
	ck_assert_near(whole.step_ns, model.kernels_ns, 0.001);
	ck_assert_near(whole.high_ns, model.kernels_ns, 0.001);
	ck_assert_near(whole.times, 1, 0.001);
	ck_assert_near(whole.busy, model.kernels_ns / model.step_ns, 0.001);
	half = ask(&model, model_held(&model) / 2, 1e8, 1);
	ck_assert_near(half.times, half.step_ns / whole.step_ns, 0.001);
	ck_assert(half.times > 2 && half.busy > whole.busy);
	ck_assert_near(ask(&model, UINT64_MAX, 0, 0.1).step_ns, whole.step_ns, 0.001);
	close_world(&records, &model);
}
END_TEST

/* A record with any line cut, doubled or with a letter in it is refused, and nothing is read
 * beyond it. */
START_TEST(damaged_records_are_refused)
{
	char message[200], *whole;
	struct records records;
	size_t length;

	make_world(3);
	write_world();
	length = strlen(text_of);
	whole = strdup(text_of);
	for (size_t at = 0; at < length; at += at < 400 ? 1 : 37) {
		memcpy(text_of, whole, length + 1);
		text_of[at] = '\0';
		ck_assert(!records_parse(&records, text_of, message, sizeof(message)));
		memcpy(text_of, whole, length + 1);
		text_of[at] = '!';
		if (records_parse(&records, text_of, message, sizeof(message)))
			records_free(&records); /* within a name */
		else
			ck_assert(strncmp(message, "line ", 5) == 0);
	}
	free(whole);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("what-if");

	suite_add_worlds(tests, the_recorded_limit_is_exact, 50);
	suite_add_worlds(tests, less_memory_never_helps, 20);
	suite_add_worlds(tests, other_places_are_predicted, 50);
	suite_add_worlds(tests, limits_are_recommended, 10);
	tcase_add_test(tests, shares_and_neighbours);
	tcase_add_test(tests, graphs_are_told_apart);
	suite_add_worlds(tests, the_range_of_a_graph_holds, 100);
	tcase_add_test(tests, an_address_has_several_lengths);
	tcase_add_loop_test(tests, alike_graphs_are_steps, 0, 2);
	tcase_add_test(tests, without_steps);
	tcase_add_test(tests, damaged_records_are_refused);
	return suite_run("what-if", tests);
}

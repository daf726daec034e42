/* SPDX-License-Identifier: MIT */
/*
 * Step detection, judged: on programs it was not made with. The programs that the detector was made
 * with are in test_step.c. These here were written and recorded when it was done. A program that
 * showed a mistake then is in test_step.c now. After a change of the detector for one of these,
 * write others.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "suite.h"
#include "tests/unit/trace.h"

#define MILLISECOND 1000000ull

enum library {
	ELEMENTWISE = 1,
	BLAS,
	DNN,
	NORM,
	ATTENTION,
	EMBEDDING,
	LOSS,
	MULTI_TENSOR,
	COPY,
	REDUCE,
	FUSED
};

/*
 * --- a residual convolutional network, momentum over lists of tensors; validation after every
 * epoch ---
 */

static void convolutional_pass(struct trace *trace, unsigned batch, bool training)
{
	static const unsigned blocks[] = {3, 4, 6, 3};

	trace_run(trace, COPY, 1, 1, batch);
	trace_run(trace, DNN, 0, 1, batch);
	for (unsigned stage = 0; stage < 4; stage++)
		for (unsigned block = 0; block < blocks[stage]; block++) {
			for (unsigned i = 0; i < 2; i++) {
				trace_run(trace, DNN, 1 + (stage + i) % 3, 1, batch * 8 + stage);
				trace_run(trace, NORM, training ? 0 : 1, 1, batch * 8 + stage);
				trace_run(trace, ELEMENTWISE, 0, 1, batch * 8 + stage);
			}
			if (!block && stage)
				trace_run(trace, DNN, 4, 1, batch * 8 + stage);
			trace_run(trace, ELEMENTWISE, 1, 1, batch * 8 + stage);
		}
	trace_run(trace, REDUCE, 0, 1, batch);
	trace_run(trace, BLAS, 0, 1, batch);
	trace_run(trace, LOSS, 0, 1, batch);
	if (!training) {
		trace_run(trace, REDUCE, 1, 1, batch);
		trace_run(trace, ELEMENTWISE, 9, 1, batch);
		return;
	}
	trace_run(trace, LOSS, 1, 1, batch);
	trace_run(trace, BLAS, 1, 1, batch);
	trace_run(trace, BLAS, 2, 1, batch);
	for (unsigned stage = 4; stage-- > 0;)
		for (unsigned block = blocks[stage]; block-- > 0;) {
			for (unsigned i = 0; i < 2; i++) {
				trace_run(trace, ELEMENTWISE, 2, 1, batch * 8 + stage);
				trace_run(trace, NORM, 2, 1, batch * 8 + stage);
				trace_run(trace, DNN, 5 + (stage + i) % 2, 1, batch * 8 + stage);
				trace_run(trace, DNN, 7 + (stage + i) % 3, 1, batch * 8 + stage);
			}
			trace_run(trace, ELEMENTWISE, 1, 1, batch * 8 + stage);
		}
	trace_run(trace, DNN, 5, 1, batch);
	for (unsigned operation = 0; operation < 3; operation++)
		trace_run(trace, MULTI_TENSOR, operation, 1, 0),
		    trace_run(trace, MULTI_TENSOR, operation, 1, 1);
}

static void convolutional(struct trace *trace)
{
	for (unsigned epoch = 0; epoch < 12; epoch++) {
		for (unsigned i = 0; i < 79; i++) {
			trace_step_begins(trace);
			convolutional_pass(trace, i == 78 ? 80 : 128, true);
			trace_pass(trace, 11 * MILLISECOND + trace_random(trace, MILLISECOND));
			trace_step_ends(trace);
		}
		for (unsigned i = 0; i < 16; i++) {
			convolutional_pass(trace, i == 15 ? 100 : 256, false);
			trace_pass(trace, 5 * MILLISECOND);
		}
	}
}

/*
 * --- a language model: layers computed twice, gradients of 16 batches, scaled losses that overflow
 * now and then ---
 */

static void language_model(struct trace *trace)
{
	for (unsigned step = 0; step < 70; step++) {
		trace_step_begins(trace);
		for (unsigned batch = 0; batch < 16; batch++) {
			trace_run(trace, EMBEDDING, 5, 1, 0);
			for (unsigned layer = 0; layer < 16; layer++)
				trace_run(trace, FUSED, 10, 11, 0),
				    trace_run(trace, BLAS, 10, 4, 0);
			trace_run(trace, NORM, 5, 1, 0);
			trace_run(trace, BLAS, 16, 1, 0);
			trace_run(trace, LOSS, 6, 3, 0);
			trace_run(trace, BLAS, 17, 2, 0);
			for (unsigned layer = 0; layer < 16; layer++) {
				trace_run(trace, FUSED, 10, 11, 0),
				    trace_run(trace, BLAS, 10, 4, 0);
				trace_run(trace, FUSED, 30, 14, 0),
				    trace_run(trace, BLAS, 20, 8, 0);
			}
			trace_run(trace, EMBEDDING, 6, 1, 0);
			trace_pass(trace, 9 * MILLISECOND);
		}
		trace_run(trace, REDUCE, 5, 2, 0);
		if (!trace_chance(trace, 4))
			for (unsigned chunk = 0; chunk < 6; chunk++)
				trace_run(trace, MULTI_TENSOR, 20, 1, chunk);
		trace_run(trace, ELEMENTWISE, 7, 1, 0);
		trace_pass(trace, 4 * MILLISECOND);
		trace_step_ends(trace);
	}
}

/*
 * --- diffusion: an average of the weights after each step, of 3 batches; two host threads launch
 * ---
 */

static void diffusion(struct trace *trace)
{
	for (unsigned step = 0; step < 300; step++) {
		trace_step_begins(trace);
		for (unsigned batch = 0; batch < 3; batch++) {
			trace_run(trace, FUSED, 60, 3, 0);
			for (unsigned level = 0; level < 8; level++)
				trace_run(trace, DNN, 30 + level % 4, 2, level),
				    trace_run(trace, NORM, 6, 2, level),
				    trace_run(trace, ATTENTION, 5, level % 3, level);
			trace_run(trace, LOSS, 9, 1, 0);
			for (unsigned level = 8; level-- > 0;)
				trace_run(trace, DNN, 40 + level % 4, 3, level),
				    trace_run(trace, NORM, 8, 2, level),
				    trace_run(trace, ATTENTION, 8, level % 3, level);
			trace_pass(trace, 7 * MILLISECOND);
		}
		trace_run(trace, MULTI_TENSOR, 30, 2, 0);
		trace_run(trace, MULTI_TENSOR, 40, 1, 0);
		trace_pass(trace, MILLISECOND + trace_random(trace, MILLISECOND));
		if (trace_chance(trace, 1))
			trace_pass(trace, 120 * MILLISECOND); /* the loader */
		trace_step_ends(trace);
	}
	trace_jitter(trace, 6, 2);
}

/* --- graphs --- */

static void one_graph(struct trace *trace)
{
	trace_run(trace, FUSED, 90, 40, 0); /* what was captured was run before */
	for (unsigned step = 0; step < 3000; step++) {
		trace_step_begins(trace);
		trace_run(trace, 77, 0, 1, 0);
		trace_pass(trace, 900000 + trace_random(trace, 50000));
		trace_step_ends(trace);
		if (step % 10 == 9)
			trace_run(trace, REDUCE, 9, 1, 0);
	}
}

static void three_graphs(struct trace *trace)
{
	for (unsigned step = 0; step < 1500; step++) {
		trace_step_begins(trace);
		trace_run(trace, COPY, 2, 1, 0);
		trace_run(trace, 78, 0, 3, 0);
		trace_pass(trace, 1200000 + trace_random(trace, 50000));
		trace_step_ends(trace);
		if (step % 150 == 149)
			for (unsigned batch = 0; batch < 25; batch++) {
				trace_run(trace, COPY, 2, 1, 0);
				trace_run(trace, 79, 0, 1, 0);
				trace_pass(trace, 400000);
			}
	}
}

/* --- recommendation: many tables by one function; another stream fetches when it likes to --- */

static void recommendation(struct trace *trace)
{
	for (unsigned step = 0; step < 800; step++) {
		unsigned fetches = (unsigned)trace_random(trace, 3);

		trace_step_begins(trace);
		for (unsigned table = 0; table < 26; table++) {
			trace_run(trace, EMBEDDING, 10, 1, table);
			if (fetches && trace_chance(trace, 8)) {
				trace_run(trace, COPY, 5, 2, 0);
				fetches--;
			}
		}
		for (unsigned layer = 0; layer < 6; layer++)
			trace_run(trace, BLAS, 40, 2, layer);
		trace_run(trace, LOSS, 12, 2, 0);
		for (unsigned layer = 6; layer-- > 0;)
			trace_run(trace, BLAS, 42, 3, layer);
		for (unsigned table = 0; table < 26; table++)
			trace_run(trace, EMBEDDING, 11, 2, table);
		trace_run(trace, MULTI_TENSOR, 50, 1, 0);
		trace_pass(trace, 3 * MILLISECOND + trace_random(trace, MILLISECOND));
		trace_step_ends(trace);
	}
}

/* --- a small network learns from a large one; two threads; validation every 40 steps --- */

static void distilled(struct trace *trace)
{
	for (unsigned step = 0; step < 400; step++) {
		trace_step_begins(trace);
		for (unsigned layer = 0; layer < 12; layer++)
			trace_run(trace, ATTENTION, 20, 7, 12);
		for (unsigned layer = 0; layer < 4; layer++)
			trace_run(trace, ATTENTION, 20, 7, 4);
		trace_run(trace, LOSS, 60, 5, 0);
		for (unsigned layer = 0; layer < 4; layer++)
			trace_run(trace, ATTENTION, 30, 13, 4);
		trace_run(trace, MULTI_TENSOR, 100, 3, 0);
		trace_run(trace, MULTI_TENSOR, 103, 1, 0);
		trace_pass(trace, 14 * MILLISECOND + trace_random(trace, 2 * MILLISECOND));
		trace_step_ends(trace);
		for (unsigned batch = 0; step % 40 == 39 && batch < 8; batch++) {
			for (unsigned layer = 0; layer < 4; layer++)
				trace_run(trace, ATTENTION, 20, 7, 4);
			trace_run(trace, LOSS, 60, 2, 0);
			trace_run(trace, REDUCE, 50, 2, 0);
			trace_pass(trace, 3 * MILLISECOND);
		}
	}
	trace_jitter(trace, 4, 3);
}

/* --- experts: each layer asks as many as it wants; the scaled loss overflows now and then --- */

static void experts(struct trace *trace)
{
	for (unsigned step = 0; step < 250; step++) {
		unsigned asked[10];

		trace_step_begins(trace);
		trace_run(trace, EMBEDDING, 30, 1, 0);
		for (unsigned layer = 0; layer < 10; layer++) {
			asked[layer] = (unsigned)trace_random(trace, 6) + 1;
			trace_run(trace, ATTENTION, 50, 5, 0);
			trace_run(trace, REDUCE, 60, 2, 0);
			for (unsigned expert = 0; expert < asked[layer]; expert++)
				trace_run(trace, BLAS, 100, 3, trace_random(trace, 512));
		}
		trace_run(trace, LOSS, 70, 4, 0);
		for (unsigned layer = 10; layer-- > 0;) {
			for (unsigned expert = 0; expert < asked[layer]; expert++)
				trace_run(trace, BLAS, 103, 6, trace_random(trace, 512));
			trace_run(trace, REDUCE, 62, 3, 0);
			trace_run(trace, ATTENTION, 60, 9, 0);
		}
		trace_run(trace, EMBEDDING, 31, 1, 0);
		trace_run(trace, REDUCE, 65, 2, 0);
		if (!trace_chance(trace, 6))
			for (unsigned operation = 0; operation < 9; operation++)
				for (unsigned chunk = 0; chunk < 3; chunk++)
					trace_run(trace, MULTI_TENSOR, 110 + operation, 1, chunk);
		trace_pass(trace, 17 * MILLISECOND + trace_random(trace, MILLISECOND));
		trace_step_ends(trace);
	}
}

/*
 * --- a few weights of a large network: gradients of 8 batches, an optimizer step by parameter ---
 */

static void adapters(struct trace *trace)
{
	for (unsigned step = 0; step < 90; step++) {
		trace_step_begins(trace);
		for (unsigned batch = 0; batch < 8; batch++) {
			trace_run(trace, EMBEDDING, 40, 1, 0);
			for (unsigned layer = 0; layer < 20; layer++) {
				trace_run(trace, BLAS, 120, 5, 0);
				trace_run(trace, ELEMENTWISE, 40, 4, 0);
				trace_run(trace, FUSED, 160, 2, 0);
			}
			trace_run(trace, LOSS, 80, 3, 0);
			for (unsigned layer = 0; layer < 20; layer++) {
				trace_run(trace, FUSED, 162, 3, 0);
				trace_run(trace, ELEMENTWISE, 42, 5, 0);
				trace_run(trace, BLAS, 125, 7, 0);
			}
			trace_pass(trace, 21 * MILLISECOND);
		}
		for (unsigned parameter = 0; parameter < 40; parameter++) {
			trace_run(trace, ELEMENTWISE, 40, 2, parameter);
			trace_run(trace, ELEMENTWISE, 50, 2, parameter);
			trace_run(trace, ELEMENTWISE, 43, 1, parameter);
		}
		trace_pass(trace, MILLISECOND + trace_random(trace, MILLISECOND));
		trace_step_ends(trace);
	}
}

/* --- steps of three launches, one right after the other --- */

static void quick(struct trace *trace)
{
	trace_run(trace, REDUCE, 80, 100, 0);
	for (unsigned step = 0; step < 60000; step++) {
		trace_step_begins(trace);
		trace_run(trace, FUSED, 170, 3, 0);
		trace_step_ends(trace);
	}
}

/*
 * --- tables: steps of 9 launches, each waited for; after every 64 steps a test on all at once; the
 * loader stalls ---
 */

static void tables(struct trace *trace)
{
	for (unsigned step = 0; step < 2500; step++) {
		trace_step_begins(trace);
		trace_run(trace, BLAS, 190, 2, step % 64 == 63);
		trace_run(trace, ELEMENTWISE, 70, 1, 0);
		trace_run(trace, LOSS, 110, 2, 0);
		trace_run(trace, BLAS, 192, 3, 0);
		trace_run(trace, MULTI_TENSOR, 170, 1, 0);
		trace_pass(trace, 700000 + trace_random(trace, 200000));
		if (trace_chance(trace, 0.5))
			trace_pass(trace, 4 * MILLISECOND);
		trace_step_ends(trace);
		if (step % 64 != 63)
			continue;
		trace_run(trace, BLAS, 190, 2, 2);
		trace_run(trace, ELEMENTWISE, 70, 1, 2);
		trace_run(trace, REDUCE, 120, 2, 0);
		trace_pass(trace, 2 * MILLISECOND);
	}
}

/*
 * --- a warm-up that tries everything, then graphs: two for the step, one for what is left out when
 * the loss overflows ---
 */

static void captured(struct trace *trace)
{
	for (unsigned kernel = 0; kernel < 3000; kernel++) {
		trace_run(trace, 140 + kernel % 3, (unsigned)trace_random(trace, 80), 1,
		          kernel % 12);
		if (kernel % 50 == 0)
			trace_pass(trace, 8 * MILLISECOND);
	}
	for (unsigned step = 0; step < 1200; step++) {
		trace_step_begins(trace);
		trace_run(trace, COPY, 60, 1, 0);
		trace_run(trace, 150, 0, 2, 0);
		if (!trace_chance(trace, 3))
			trace_run(trace, 151, 0, 1, 0);
		trace_pass(trace, 3 * MILLISECOND + trace_random(trace, MILLISECOND / 4));
		trace_step_ends(trace);
	}
}

/*
 * --- pictures of four sizes; the optimizer's launches are of functions that the layers use, too
 * ---
 */

static void buckets(struct trace *trace)
{
	for (unsigned step = 0; step < 260; step++) {
		uint64_t size = trace_random(trace, 4);

		trace_step_begins(trace);
		trace_run(trace, COPY, 70, 2, size);
		for (unsigned block = 0; block < 7; block++) {
			trace_run(trace, DNN, 130 + block % 2, 3, size);
			trace_run(trace, ELEMENTWISE, 80, 3, size);
			trace_run(trace, NORM, 40, 1, size);
		}
		trace_run(trace, LOSS, 120, 2, size);
		for (unsigned block = 7; block-- > 0;) {
			trace_run(trace, NORM, 41, 1, size);
			trace_run(trace, ELEMENTWISE, 81, 4, size);
			trace_run(trace, DNN, 140 + block % 2, 5, size);
		}
		for (unsigned parameter = 0; parameter < 35; parameter++)
			trace_run(trace, ELEMENTWISE, 80, 5, parameter);
		trace_pass(trace, (5 + size * 3) * MILLISECOND);
		trace_step_ends(trace);
	}
}

/*
 * --- a classifier on pictures, in half the precision: everything that a textbook's loop does ---
 */

static void textbook_pass(struct trace *trace, bool training)
{
	trace_run(trace, COPY, 90, 1, training);
	for (unsigned layer = 0; layer < 13; layer++) {
		trace_run(trace, ELEMENTWISE, 100, 1, layer); /* to half */
		trace_run(trace, DNN, 160 + layer % 4, 1, layer);
		trace_run(trace, ELEMENTWISE, 101, 1, layer);
		if (layer % 3 == 2)
			trace_run(trace, REDUCE, 150, 1, layer);
	}
	trace_run(trace, BLAS, 230, 2, training);
	trace_run(trace, LOSS, 150, 2, training);
	if (!training) {
		trace_run(trace, REDUCE, 151, 3, 0);
		return;
	}
	trace_run(trace, ELEMENTWISE, 102, 1, 0); /* the scale */
	trace_run(trace, LOSS, 152, 2, 0);
	trace_run(trace, BLAS, 232, 4, 0);
	for (unsigned layer = 13; layer-- > 0;) {
		trace_run(trace, ELEMENTWISE, 103, 1, layer);
		trace_run(trace, DNN, 170 + layer % 4, 2, layer);
		trace_run(trace, ELEMENTWISE, 100, 1, layer);
		if (layer % 3 == 2)
			trace_run(trace, REDUCE, 154, 1, layer);
	}
}

static void textbook(struct trace *trace)
{
	for (unsigned step = 0; step < 700; step++) {
		trace_step_begins(trace);
		textbook_pass(trace, true);
		trace_run(trace, MULTI_TENSOR, 200, 2, 0); /* no number is infinite? */
		if (!trace_chance(trace, 4))
			trace_run(trace, MULTI_TENSOR, 202, 4, 0);
		trace_run(trace, ELEMENTWISE, 104, 2, 0);
		trace_pass(trace, 6 * MILLISECOND + trace_random(trace, MILLISECOND));
		trace_step_ends(trace);
		if (step % 60 != 59)
			continue;
		for (unsigned batch = 0; batch < 15; batch++) {
			textbook_pass(trace, false);
			trace_pass(trace, 2 * MILLISECOND);
		}
	}
}

/*
 * --- sequences of any length, packed; gradients of 4 batches; a report by two functions after each
 * 25 steps ---
 */

static void packed(struct trace *trace)
{
	for (unsigned step = 0; step < 160; step++) {
		trace_step_begins(trace);
		for (unsigned batch = 0; batch < 4; batch++) {
			uint64_t tokens = 100 + trace_random(trace, 900);

			trace_run(trace, EMBEDDING, 70, 2, tokens);
			for (unsigned layer = 0; layer < 6; layer++)
				trace_run(trace, BLAS, 240, 4, tokens),
				    trace_run(trace, ATTENTION, 90, 3, tokens),
				    trace_run(trace, ELEMENTWISE, 110, 4, tokens);
			trace_run(trace, LOSS, 160, 3, tokens);
			for (unsigned layer = 0; layer < 6; layer++)
				trace_run(trace, ELEMENTWISE, 114, 6, tokens),
				    trace_run(trace, ATTENTION, 93, 4, tokens),
				    trace_run(trace, BLAS, 244, 8, tokens);
			trace_run(trace, EMBEDDING, 72, 1, tokens);
			trace_pass(trace, tokens * MILLISECOND / 80);
		}
		trace_run(trace, REDUCE, 160, 2, 0);
		for (unsigned operation = 0; operation < 8; operation++)
			trace_run(trace, MULTI_TENSOR, 210 + operation, 1, 0),
			    trace_run(trace, MULTI_TENSOR, 210 + operation, 1, 1);
		if (step % 25 == 24)
			trace_run(trace, REDUCE, 165, 2, 0);
		trace_pass(trace, 2 * MILLISECOND);
		trace_step_ends(trace);
	}
}

/*
 * --- a ranking of pairs: two passes forward, one backward; a table is rewritten every 20 steps ---
 */

static void pairs(struct trace *trace)
{
	for (unsigned step = 0; step < 900; step++) {
		uint64_t words = 3 + trace_random(trace, 9);

		trace_step_begins(trace);
		for (unsigned side = 0; side < 2; side++) {
			trace_run(trace, EMBEDDING, 80, 1, words);
			for (uint64_t word = 0; word < words; word++)
				trace_run(trace, BLAS, 260, 1, 0),
				    trace_run(trace, FUSED, 250, 1, 0);
			trace_run(trace, REDUCE, 170, 1, words);
		}
		trace_run(trace, LOSS, 170, 2, 0);
		for (unsigned side = 0; side < 2; side++)
			for (uint64_t word = 0; word < words; word++)
				trace_run(trace, FUSED, 251, 1, 0),
				    trace_run(trace, BLAS, 261, 2, 0);
		trace_run(trace, EMBEDDING, 81, 2, words);
		trace_run(trace, MULTI_TENSOR, 230, 3, 0);
		if (step % 20 == 19)
			trace_run(trace, EMBEDDING, 84, 4, 0);
		trace_pass(trace, words * MILLISECOND / 3);
		trace_step_ends(trace);
	}
}

/* --- audio made from text: two threads launch; a validation of 3 batches --- */

static void audio(struct trace *trace)
{
	for (unsigned step = 0; step < 500; step++) {
		trace_step_begins(trace);
		for (unsigned layer = 0; layer < 10; layer++)
			trace_run(trace, DNN, 200, 3, layer),
			    trace_run(trace, ELEMENTWISE, 130, 2, layer);
		trace_run(trace, LOSS, 180, 4, 0);
		for (unsigned layer = 10; layer-- > 0;)
			trace_run(trace, ELEMENTWISE, 132, 3, layer),
			    trace_run(trace, DNN, 203, 5, layer);
		trace_run(trace, MULTI_TENSOR, 240, 2, 0);
		trace_pass(trace, 9 * MILLISECOND + trace_random(trace, MILLISECOND));
		trace_step_ends(trace);
		for (unsigned batch = 0; step % 45 == 44 && batch < 3; batch++) {
			for (unsigned layer = 0; layer < 10; layer++)
				trace_run(trace, DNN, 200, 3, layer),
				    trace_run(trace, ELEMENTWISE, 130, 2, layer);
			trace_run(trace, LOSS, 180, 4, 1);
			trace_pass(trace, 4 * MILLISECOND);
		}
	}
	trace_jitter(trace, 7, 2);
}

static const struct program {
	const char *name;
	void (*run)(struct trace *trace);
} programs[] = {
    {"convolutional", convolutional},
    {"language_model", language_model},
    {"diffusion", diffusion},
    {"one_graph", one_graph},
    {"three_graphs", three_graphs},
    {"recommendation", recommendation},
    {"distilled", distilled},
    {"experts", experts},
    {"adapters", adapters},
    {"quick", quick},
    {"tables", tables},
    {"captured", captured},
    {"buckets", buckets},
    {"pairs", pairs},
    {"audio", audio},
    {"textbook", textbook},
    {"packed", packed},
};

START_TEST(steps_of_programs_are_found)
{
	struct trace trace;
	const char *wrong;

	trace_start(&trace, 1000 + (uint64_t)_i);
	programs[_i].run(&trace);
	wrong = trace_judge(programs[_i].name, &trace, 3);
	ck_assert_msg(!wrong, "%s", wrong);
	trace_free(&trace);
}
END_TEST

static const char *const recordings[] = {
    "demo_judged", "convolutions_1", "convolutions_2", "attention_1",
    "attention_2", "skipped_1",      "skipped_2",
};

START_TEST(steps_of_recordings_are_found)
{
	const char *wrong;
	struct trace trace;
	char path[128];

	snprintf(path, sizeof(path), "tests/unit/data/%s.trace", recordings[_i]);
	ck_assert_msg(trace_read(&trace, path), "%s", path);
	/* tinygrad launches the first steps otherwise, before it makes graphs. */
	wrong = trace_judge(recordings[_i], &trace, 6);
	ck_assert_msg(!wrong, "%s", wrong);
	trace_free(&trace);
}
END_TEST

/* A walk from kernel to kernel; bursts of whatever there is. */
static void launch_at_random(struct trace *trace, int kind)
{
	unsigned state = 0;

	while (trace->count < 300000) {
		switch (kind) {
		case 0:
			state =
			    (state +
			     (trace_chance(trace, 70) ? 1 : (unsigned)trace_random(trace, 40))) %
			    40;
			trace_run(trace, 210, state, 1, trace_random(trace, 3));
			break;
		default:
			trace_run(trace, 220, (unsigned)trace_random(trace, 60),
			          1 + (unsigned)trace_random(trace, 12), trace_random(trace, 9));
			trace_pass(trace, trace_chance(trace, 5) ? MILLISECOND : 0);
		}
	}
}

START_TEST(random_launches_are_no_steps)
{
	struct trace_found found;
	struct trace trace;

	trace_start(&trace, 2000 + (uint64_t)_i);
	launch_at_random(&trace, _i);
	found = trace_detect(&trace);
	ck_assert_uint_eq(found.told, 0);
	ck_assert_uint_eq(found.steps, 0);
	trace_free(&trace);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("step, judged");

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, steps_of_programs_are_found, 0,
	                    sizeof(programs) / sizeof(*programs));
	tcase_add_loop_test(tests, steps_of_recordings_are_found, 0,
	                    sizeof(recordings) / sizeof(*recordings));
	tcase_add_loop_test(tests, random_launches_are_no_steps, 0, 2);
	return suite_run("step, judged", tests);
}

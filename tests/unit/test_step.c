/* SPDX-License-Identifier: MIT */
/*
 * Step detection: the programs it was made with, generated and recorded, and its rules one by one.
 * The programs that judge it are in test_step_judged.c.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/modules/steps/step.h"
#include "suite.h"
#include "tests/unit/trace.h"

#define MILLISECOND 1000000ull

/* --- a network of layers, in many ways --- */

enum optimizer { FUSED, LISTS, BY_PARAMETER };

struct network {
	const char *name;
	unsigned layers, kernels; /* launches of a layer, forward */
	enum optimizer optimizer;
	unsigned steps, step_us;    /* what the device takes besides */
	unsigned batches;           /* of which gradients are accumulated; 0: 1 */
	double skipped;             /* percent of steps without the optimizer's launches */
	unsigned shortest, longest; /* layers are as many as the batch is long */
	unsigned validate_every, validation_batches;
	double jitter, hiccups; /* percent of places, of steps */
	unsigned warm_up;       /* steps that are different */
	unsigned few;           /* all is done by so few functions, by other grids each time */
	bool compiled;          /* each launch is of a function of its own, a validation's too */
	bool reshaped;          /* grids change with the batch */
	unsigned missed;        /* steps that are over before the detector can know */
};

enum kind {
	GATHER,
	FORWARD,
	SHARED,
	HEAD,
	LOSS,
	HEAD_BACK,
	BACKWARD,
	OPTIMIZER,
	ACCURACY,
	WARM,
	VALIDATION
};

static void launch(struct trace *trace, const struct network *network, unsigned kind,
                   unsigned layer, unsigned kernel, uint64_t batch)
{
	uint64_t function = kind * 100000ull + kernel, shape = kind * 1000ull + layer * 10 + kernel;

	if (network->few)
		function = 1 + (kind * 7 + layer * 5 + kernel * 3) % network->few;
	else if (network->compiled)
		function += layer * 100ull;
	if (network->reshaped && kind != OPTIMIZER)
		shape += batch * 1000000;
	trace_add(trace, function, shape);
}

static void forward(struct trace *trace, const struct network *network, unsigned layers,
                    uint64_t batch, bool validation)
{
	unsigned v = validation && network->compiled ? VALIDATION : 0;

	launch(trace, network, v + GATHER, 0, 0, batch);
	for (unsigned layer = 0; layer < layers; layer++) {
		for (unsigned kernel = 0; kernel < network->kernels; kernel++)
			launch(trace, network, v + FORWARD, layer, kernel, batch);
		launch(trace, network, v + SHARED, layer, 0, batch);
		if (layer % 2)
			launch(trace, network, v + SHARED, layer, 1, batch);
	}
	launch(trace, network, v + HEAD, 0, 0, batch);
	launch(trace, network, v + HEAD, 0, 1, batch);
	launch(trace, network, v + LOSS, 0, 0, batch);
}

static void backward(struct trace *trace, const struct network *network, unsigned layers,
                     uint64_t batch)
{
	launch(trace, network, HEAD_BACK, 0, 0, batch);
	launch(trace, network, HEAD_BACK, 0, 1, batch);
	for (unsigned layer = layers; layer-- > 0;) {
		for (unsigned kernel = 0; kernel < network->kernels * 2; kernel++)
			launch(trace, network, BACKWARD, layer, kernel, batch);
		launch(trace, network, SHARED, layer, 0, batch);
		launch(trace, network, SHARED, layer, 2, batch);
	}
}

static void optimize(struct trace *trace, const struct network *network)
{
	unsigned layers = network->longest ? 3 : network->layers;

	switch (network->optimizer) {
	case FUSED:
		launch(trace, network, OPTIMIZER, 0, 0, 0);
		break;
	case LISTS:
		for (unsigned operation = 0; operation < 12; operation++)
			for (unsigned chunk = 0; chunk < layers / 8 + 1; chunk++)
				launch(trace, network, OPTIMIZER, 0, operation, 0);
		break;
	case BY_PARAMETER:
		for (unsigned parameter = 0; parameter < layers * 2; parameter++) {
			launch(trace, network, SHARED, parameter, 2, 0);
			launch(trace, network, OPTIMIZER, parameter, 0, 0);
			launch(trace, network, OPTIMIZER, parameter, 1, 0);
		}
	}
}

static unsigned draw_layers(struct trace *trace, const struct network *network)
{
	if (!network->longest)
		return network->layers;
	return network->shortest +
	       (unsigned)trace_random(trace, network->longest - network->shortest + 1);
}

static void train_step(struct trace *trace, const struct network *network, bool warm_up)
{
	unsigned most = network->longest ? network->longest : network->layers;

	trace_step_begins(trace);
	for (unsigned i = 0; warm_up && i < 300; i++)
		launch(trace, network, WARM, 0, (unsigned)trace_random(trace, 20), 0);
	for (unsigned i = 0; i < (network->batches ? network->batches : 1); i++) {
		uint64_t batch = trace_random(trace, 1000);
		unsigned layers = draw_layers(trace, network);

		forward(trace, network, layers, batch, false);
		backward(trace, network, layers, batch);
		trace_pass(trace, network->step_us * 1000ull * layers / most);
	}
	if (!trace_chance(trace, network->skipped))
		optimize(trace, network);
	trace_pass(trace,
	           network->step_us * 50ull + trace_random(trace, network->step_us * 100ull));
	if (warm_up)
		trace_pass(trace, 200 * MILLISECOND);
	if (trace_chance(trace, network->hiccups))
		trace_pass(trace, network->step_us * 4000ull);
	trace_step_ends(trace);
}

static void train(struct trace *trace, const struct network *network)
{
	for (unsigned i = 0; i < 200; i++) /* the first weights */
		trace_add(trace, 900000 + i % 7, trace_random(trace, 50));
	for (unsigned step = 1; step <= network->steps; step++) {
		train_step(trace, network, step <= network->warm_up);
		if (!network->validate_every || step % network->validate_every)
			continue;
		for (unsigned batch = 0; batch < network->validation_batches; batch++) {
			forward(trace, network, draw_layers(trace, network),
			        trace_random(trace, 1000), true);
			launch(trace, network, ACCURACY, 0, 0, 0);
			trace_pass(trace, network->step_us * 400ull);
		}
	}
	trace_jitter(trace, network->jitter, 3);
}

/* clang-format off */
static const struct network networks[] = {
	{"small", .layers = 3, .kernels = 1, .steps = 1500, .step_us = 2000},
	{"lists", .layers = 24, .kernels = 9, .optimizer = LISTS, .steps = 200, .step_us = 50000},
	{"by parameter", .layers = 24, .kernels = 9, .optimizer = BY_PARAMETER, .steps = 200, .step_us = 50000},
	{"29000 launches", .layers = 96, .kernels = 100, .optimizer = LISTS, .steps = 30, .step_us = 500000},
	{"compiled", .layers = 8, .kernels = 3, .compiled = true, .optimizer = BY_PARAMETER, .steps = 300, .step_us = 20000},
	{"compiled, validated", .layers = 8, .kernels = 3, .compiled = true, .optimizer = BY_PARAMETER, .steps = 600, .step_us = 20000, .validate_every = 10, .validation_batches = 4},
	{"compiled, validated at once", .layers = 8, .kernels = 3, .compiled = true, .optimizer = BY_PARAMETER, .steps = 600, .step_us = 20000, .validate_every = 10, .validation_batches = 1},
	{"4 batches", .layers = 3, .kernels = 1, .batches = 4, .steps = 500, .step_us = 2000},
	{"4 batches, lists", .layers = 12, .kernels = 9, .optimizer = LISTS, .batches = 4, .steps = 200, .step_us = 20000},
	{"2 batches, by parameter", .layers = 12, .kernels = 4, .optimizer = BY_PARAMETER, .batches = 2, .steps = 200, .step_us = 20000},
	{"8 batches, skipped", .layers = 12, .kernels = 9, .optimizer = LISTS, .batches = 8, .skipped = 5, .steps = 200, .step_us = 20000},
	{"32 batches", .layers = 12, .kernels = 9, .optimizer = LISTS, .batches = 32, .steps = 60, .step_us = 20000},
	{"skipped", .layers = 12, .kernels = 9, .optimizer = LISTS, .skipped = 5, .steps = 300, .step_us = 20000},
	{"skipped, by parameter", .layers = 12, .kernels = 3, .optimizer = BY_PARAMETER, .skipped = 8, .steps = 300, .step_us = 20000},
	{"recurrent", .kernels = 4, .optimizer = LISTS, .shortest = 5, .longest = 60, .steps = 300, .step_us = 20000, .reshaped = true},
	{"recurrent, by parameter", .kernels = 4, .optimizer = BY_PARAMETER, .shortest = 5, .longest = 60, .steps = 300, .step_us = 20000, .reshaped = true},
	{"reshaped", .layers = 12, .kernels = 4, .optimizer = LISTS, .steps = 300, .step_us = 20000, .reshaped = true},
	{"validated, 20 by 5", .layers = 12, .kernels = 4, .optimizer = LISTS, .steps = 500, .step_us = 20000, .validate_every = 20, .validation_batches = 5},
	{"validated, 10 by 10", .layers = 12, .kernels = 4, .steps = 500, .step_us = 20000, .validate_every = 10, .validation_batches = 10},
	{"validated, 100 by 50", .layers = 12, .kernels = 4, .steps = 1000, .step_us = 20000, .validate_every = 100, .validation_batches = 50},
	{"validated, 200 by 5", .layers = 12, .kernels = 4, .steps = 1000, .step_us = 20000, .validate_every = 200, .validation_batches = 5},
	{"validated, 300 by 200", .layers = 12, .kernels = 4, .steps = 1500, .step_us = 20000, .validate_every = 300, .validation_batches = 200},
	{"validated, small", .layers = 3, .kernels = 1, .steps = 1500, .step_us = 2000, .validate_every = 50, .validation_batches = 8},
	{"jitter", .layers = 12, .kernels = 4, .optimizer = LISTS, .steps = 500, .step_us = 20000, .jitter = 15},
	{"jitter, small", .layers = 3, .kernels = 1, .steps = 1500, .step_us = 2000, .jitter = 8},
	{"hiccups", .layers = 12, .kernels = 4, .optimizer = LISTS, .steps = 500, .step_us = 20000, .hiccups = 3},
	{"warm-up", .layers = 12, .kernels = 4, .optimizer = LISTS, .steps = 300, .step_us = 20000, .warm_up = 5},
	{"three functions", .layers = 6, .kernels = 2, .steps = 600, .step_us = 4000, .few = 3, .missed = 70},
	{"one function", .layers = 2, .kernels = 1, .steps = 900, .step_us = 4000, .few = 1, .missed = 210},
	{"all at once", .kernels = 4, .optimizer = LISTS, .batches = 4, .skipped = 3, .shortest = 5, .longest = 30, .steps = 300, .step_us = 20000, .reshaped = true, .hiccups = 2, .warm_up = 3, .validate_every = 25, .validation_batches = 6, .jitter = 5},
};
/* clang-format on */

START_TEST(steps_of_networks_are_found)
{
	const struct network *network = &networks[_i];
	struct trace trace;
	const char *wrong;

	trace_start(&trace, (uint64_t)_i + 1);
	train(&trace, network);
	wrong = trace_judge(network->name, &trace, network->missed + 3);
	ck_assert_msg(!wrong, "%s", wrong);
	trace_free(&trace);
}
END_TEST

/* --- programs that showed mistakes --- */

enum library {
	ELEMENTWISE = 1,
	BLAS,
	DNN,
	NORM,
	ATTENTION,
	EMBEDDING,
	CRITERION,
	MULTI_TENSOR,
	COPY,
	REDUCE,
	POINTWISE,
};

/*
 * --- translation with recurrent layers: sentences of all lengths, norms clipped, an optimizer step
 * by parameter ---
 */

static void translation(struct trace *trace)
{
	for (unsigned step = 0; step < 400; step++) {
		unsigned long source = 4 + trace_random(trace, 40),
		              target = 4 + trace_random(trace, source + 10);
		uint64_t batch = trace_random(trace, 60);

		trace_step_begins(trace);
		trace_run(trace, EMBEDDING, 0, 2, batch);
		for (unsigned long t = 0; t < source; t++) {
			trace_run(trace, BLAS, 3, 1, batch);
			trace_run(trace, POINTWISE, 0, 2, batch);
		}
		for (unsigned long t = 0; t < target; t++) {
			trace_run(trace, BLAS, 3, 2, batch);
			trace_run(trace, ATTENTION, 0, 1, batch);
			trace_run(trace, POINTWISE, 0, 2, batch);
			trace_run(trace, BLAS, 5, 1, batch);
			trace_run(trace, CRITERION, 2, 1, batch);
		}
		trace_run(trace, REDUCE, 2, 1, target);
		for (unsigned long t = 0; t < target; t++) {
			trace_run(trace, CRITERION, 3, 1, batch);
			trace_run(trace, BLAS, 6, 3, batch);
			trace_run(trace, ATTENTION, 1, 2, batch);
			trace_run(trace, POINTWISE, 2, 2, batch);
			trace_run(trace, ELEMENTWISE, 3, 1, batch);
		}
		for (unsigned long t = 0; t < source; t++) {
			trace_run(trace, BLAS, 6, 2, batch);
			trace_run(trace, POINTWISE, 2, 2, batch);
			trace_run(trace, ELEMENTWISE, 3, 1, batch);
		}
		trace_run(trace, EMBEDDING, 2, 2, batch);
		for (unsigned parameter = 0; parameter < 14; parameter++)
			trace_run(trace, REDUCE, 3, 1, parameter);
		for (unsigned parameter = 0; parameter < 14; parameter++) {
			trace_run(trace, ELEMENTWISE, 4, 1, parameter);
			trace_run(trace, ELEMENTWISE, 5, 4, parameter);
		}
		trace_pass(trace, (source + target) * MILLISECOND / 2);
		trace_step_ends(trace);
	}
}

/* --- two networks against each other: two optimizers of the same kind in a step --- */

static void adversarial(struct trace *trace)
{
	for (unsigned step = 0; step < 500; step++) {
		trace_step_begins(trace);
		for (unsigned part = 0; part < 2; part++) {
			for (unsigned pass = 0; pass < 2 - part; pass++) {
				for (unsigned layer = 0; layer < 5; layer++)
					trace_run(trace, DNN, 10 + layer % 2, 1, layer),
					    trace_run(trace, NORM, 0, 1, layer),
					    trace_run(trace, ELEMENTWISE, 0, 1, layer);
				trace_run(trace, CRITERION, 4, 1, part);
				for (unsigned layer = 5; layer-- > 0;)
					trace_run(trace, ELEMENTWISE, 2, 1, layer),
					    trace_run(trace, NORM, 2, 1, layer),
					    trace_run(trace, DNN, 12, 2, layer);
			}
			if (part) {
				for (unsigned layer = 0; layer < 5; layer++)
					trace_run(trace, DNN, 20, 3, layer);
			}
			trace_run(trace, MULTI_TENSOR, 10, 2, part);
		}
		trace_pass(trace, 8 * MILLISECOND + trace_random(trace, MILLISECOND));
		trace_step_ends(trace);
	}
}

/* --- a compiler's output: more functions than the detector remembers, each launched once --- */

static void compiled(struct trace *trace)
{
	for (unsigned step = 0; step < 120; step++) {
		trace_step_begins(trace);
		for (unsigned kernel = 0; kernel < 700; kernel++) {
			trace_run(trace, 100, kernel, 1, 0);
			if (kernel % 9 == 0)
				trace_run(trace, BLAS, 50 + kernel % 4, 1, 0);
		}
		trace_pass(trace, 22 * MILLISECOND + trace_random(trace, MILLISECOND));
		trace_step_ends(trace);
	}
}

/* --- one model is trained, then another from its output --- */

static void one_after_the_other(struct trace *trace)
{
	for (unsigned step = 0; step < 400; step++) {
		trace_step_begins(trace);
		trace_run(trace, 110, 0, 60, 0);
		trace_run(trace, MULTI_TENSOR, 60, 2, 0);
		trace_pass(trace, 9 * MILLISECOND);
		trace_step_ends(trace);
	}
	for (unsigned batch = 0; batch < 30; batch++) {
		trace_run(trace, 110, 0, 20, 1);
		trace_run(trace, COPY, 9, 1, 0);
		trace_pass(trace, 3 * MILLISECOND);
	}
	for (unsigned step = 0; step < 800; step++) {
		trace_step_begins(trace);
		trace_run(trace, 120, 0, 45, 0);
		trace_run(trace, MULTI_TENSOR, 62, 2, 0);
		trace_pass(trace, 6 * MILLISECOND);
		trace_step_ends(trace);
	}
}

/* --- trees of all sizes; validation every 50 steps --- */

static void trees(struct trace *trace)
{
	for (unsigned step = 0; step < 600; step++) {
		uint64_t nodes = 3 + trace_random(trace, 25);

		trace_step_begins(trace);
		trace_run(trace, EMBEDDING, 20, 1, nodes);
		for (uint64_t node = 0; node < nodes; node++) {
			trace_run(trace, COPY, 20, 1, node);
			trace_run(trace, BLAS, 60, 2, node);
			trace_run(trace, POINTWISE, 100, 1, node);
		}
		trace_run(trace, BLAS, 62, 1, 0);
		trace_run(trace, CRITERION, 20, 2, 0);
		trace_run(trace, BLAS, 63, 2, 0);
		for (uint64_t node = 0; node < nodes; node++) {
			trace_run(trace, POINTWISE, 101, 1, node);
			trace_run(trace, BLAS, 65, 4, node);
			trace_run(trace, ELEMENTWISE, 20, 2, node);
		}
		trace_run(trace, EMBEDDING, 21, 1, nodes);
		for (unsigned parameter = 0; parameter < 9; parameter++)
			trace_run(trace, ELEMENTWISE, 22, 2, parameter);
		trace_pass(trace, nodes * MILLISECOND / 2);
		trace_step_ends(trace);
		for (unsigned batch = 0; step % 50 == 49 && batch < 12; batch++) {
			nodes = 3 + trace_random(trace, 25);
			trace_run(trace, EMBEDDING, 20, 1, nodes);
			for (uint64_t node = 0; node < nodes; node++) {
				trace_run(trace, COPY, 20, 1, node);
				trace_run(trace, BLAS, 60, 2, node);
				trace_run(trace, POINTWISE, 100, 1, node);
			}
			trace_run(trace, BLAS, 62, 1, 0);
			trace_run(trace, REDUCE, 20, 2, 0);
			trace_pass(trace, nodes * MILLISECOND / 5);
		}
	}
}

/*
 * --- a compiler's output, more functions than the detector remembers; gradients of 4 batches ---
 */

static void compiled_wide(struct trace *trace)
{
	for (unsigned step = 0; step < 100; step++) {
		trace_step_begins(trace);
		for (unsigned batch = 0; batch < 4; batch++) {
			trace_run(trace, 130, 0, 620, 0);
			trace_pass(trace, 12 * MILLISECOND);
		}
		trace_run(trace, 131, 0, 45, 0);
		trace_pass(trace, 2 * MILLISECOND + trace_random(trace, MILLISECOND));
		trace_step_ends(trace);
	}
}

/* --- a network that grows: the same functions, more launches --- */

static void growing(struct trace *trace)
{
	for (unsigned step = 0; step < 1200; step++) {
		unsigned depth = 2 + step / 400 * 2;

		trace_step_begins(trace);
		trace_run(trace, COPY, 30, 1, depth);
		for (unsigned level = 0; level < depth; level++) {
			trace_run(trace, DNN, 60, 2, level);
			trace_run(trace, NORM, 20, 1, level);
			trace_run(trace, ELEMENTWISE, 30, 1, level);
		}
		trace_run(trace, CRITERION, 30, 2, depth);
		for (unsigned level = depth; level-- > 0;) {
			trace_run(trace, ELEMENTWISE, 31, 1, level);
			trace_run(trace, NORM, 21, 1, level);
			trace_run(trace, DNN, 62, 3, level);
		}
		trace_run(trace, MULTI_TENSOR, 70, 4, depth);
		trace_pass(trace, depth * MILLISECOND + trace_random(trace, MILLISECOND));
		trace_step_ends(trace);
	}
}

/*
 * --- objects in pictures: as many rounds as a picture needs; the scaled loss overflows now and
 * then ---
 */

static void objects(struct trace *trace)
{
	for (unsigned step = 0; step < 400; step++) {
		bool validation = step % 120 == 119;

		for (unsigned pass = 0; pass < (validation ? 31 : 1); pass++) {
			if (!pass)
				trace_step_begins(trace);
			for (unsigned level = 0; level < 5; level++)
				trace_run(trace, DNN, 80 + level, 4, level);
			trace_run(trace, REDUCE, 30, 2, step);
			for (uint64_t round = trace_random(trace, 8) + 1; round > 0; round--)
				trace_run(trace, POINTWISE, 120, 3, round);
			trace_run(trace, BLAS, 80, 3, trace_random(trace, 100));
			trace_pass(trace, 4 * MILLISECOND);
			if (pass)
				continue;
			trace_run(trace, CRITERION, 40, 4, step);
			trace_run(trace, BLAS, 83, 4, trace_random(trace, 100));
			for (unsigned level = 5; level-- > 0;)
				trace_run(trace, DNN, 90 + level, 7, level);
			if (!trace_chance(trace, 5))
				trace_run(trace, MULTI_TENSOR, 80, 5, 0);
			trace_pass(trace, 9 * MILLISECOND);
			trace_step_ends(trace);
		}
	}
}

/*
 * --- point clouds: neighbours are searched as often as needed; two losses; validation every 30
 * steps ---
 */

static void clouds_pass(struct trace *trace, uint64_t points, bool training)
{
	for (unsigned level = 0; level < 4; level++) {
		trace_run(trace, POINTWISE, 200, 1, points >> level);
		for (uint64_t search = points >> level; search > 0;
		     search -= search < 3 ? search : 3)
			trace_run(trace, REDUCE, 100, 1, search);
		trace_run(trace, BLAS, 150, 3, points >> level);
		trace_run(trace, NORM, training ? 30 : 31, 1, level);
	}
	trace_run(trace, CRITERION, 90, training ? 2 : 1, points);
	trace_pass(trace, points * MILLISECOND / 6);
	if (!training)
		return;
	trace_run(trace, CRITERION, 92, 2, points);
	for (unsigned level = 4; level-- > 0;) {
		trace_run(trace, NORM, 32, 1, level);
		trace_run(trace, BLAS, 153, 6, points >> level);
		trace_run(trace, POINTWISE, 201, 2, points >> level);
	}
	trace_pass(trace, points * MILLISECOND / 3);
}

static void clouds(struct trace *trace)
{
	for (unsigned step = 0; step < 450; step++) {
		trace_step_begins(trace);
		clouds_pass(trace, 8 + trace_random(trace, 40), true);
		for (unsigned parameter = 0; parameter < 22; parameter++)
			trace_run(trace, ELEMENTWISE, 60, 3, parameter);
		trace_pass(trace, MILLISECOND / 2);
		trace_step_ends(trace);
		for (unsigned batch = 0; step % 30 == 29 && batch < 9; batch++)
			clouds_pass(trace, 8 + trace_random(trace, 40), false);
	}
}

/*
 * --- a vision model on 3 streams; gradients of 6 batches; the average of its weights after each
 * step ---
 */

static void vision(struct trace *trace)
{
	for (unsigned step = 0; step < 110; step++) {
		trace_step_begins(trace);
		for (unsigned batch = 0; batch < 6; batch++) {
			trace_run(trace, COPY, 50, 2, 0);
			trace_run(trace, DNN, 120, 1, 0);
			for (unsigned layer = 0; layer < 9; layer++)
				trace_run(trace, ATTENTION, 70, 6, 0),
				    trace_run(trace, BLAS, 170, 4, 0);
			trace_run(trace, CRITERION, 100, 3, 0);
			for (unsigned layer = 0; layer < 9; layer++)
				trace_run(trace, BLAS, 174, 8, 0),
				    trace_run(trace, ATTENTION, 76, 9, 0);
			trace_run(trace, DNN, 121, 1, 0);
			trace_pass(trace, 8 * MILLISECOND + trace_random(trace, MILLISECOND));
		}
		trace_run(trace, REDUCE, 110, 1, 0);
		for (unsigned chunk = 0; chunk < 4; chunk++)
			trace_run(trace, MULTI_TENSOR, 150, 3, chunk);
		trace_run(trace, MULTI_TENSOR, 160, 1, 0);
		trace_pass(trace, 2 * MILLISECOND);
		trace_step_ends(trace);
	}
	trace_jitter(trace, 5, 3);
}

/*
 * --- speech: as long as was spoken, norms clipped, gradients of 2 batches; validation every 80
 * steps ---
 */

static void speech_pass(struct trace *trace, bool training)
{
	uint64_t frames = 2 + trace_random(trace, 14);

	trace_run(trace, COPY, 40, 2, frames);
	trace_run(trace, DNN, 110, 4, frames);
	for (uint64_t frame = 0; frame < frames; frame++)
		for (unsigned layer = 0; layer < 3; layer++)
			trace_run(trace, POINTWISE, 140, 3, frame);
	trace_run(trace, BLAS, 90, 2, frames);
	trace_run(trace, CRITERION, 50, 3, frames);
	trace_pass(trace, frames * MILLISECOND / 4);
	if (!training)
		return;
	trace_run(trace, CRITERION, 53, 2, frames);
	trace_run(trace, BLAS, 92, 3, frames);
	for (uint64_t frame = 0; frame < frames; frame++)
		for (unsigned layer = 0; layer < 3; layer++)
			trace_run(trace, POINTWISE, 143, 5, frame);
	trace_run(trace, DNN, 114, 8, frames);
	trace_pass(trace, frames * MILLISECOND / 2);
}

static void speech(struct trace *trace)
{
	for (unsigned step = 0; step < 500; step++) {
		trace_step_begins(trace);
		speech_pass(trace, true);
		speech_pass(trace, true);
		trace_run(trace, REDUCE, 40, 3, 0);
		trace_run(trace, MULTI_TENSOR, 90, 2, 0);
		trace_run(trace, MULTI_TENSOR, 92, 2, 0);
		trace_step_ends(trace);
		for (unsigned batch = 0; step % 80 == 79 && batch < 20; batch++)
			speech_pass(trace, false);
	}
}

/*
 * --- the host runs ahead, and waits when it prints, every 100 steps; by two functions it computes
 * a mean for that ---
 */

static void run_ahead(struct trace *trace, unsigned steps, unsigned waits_every)
{
	uint64_t busy_until = trace->now_ns;

	for (unsigned step = 0; step < steps; step++) {
		trace_step_begins(trace);
		trace_run(trace, POINTWISE, 180, 4, 0);
		trace_run(trace, BLAS, 140, 6, 0);
		trace_run(trace, MULTI_TENSOR, 130, 1, 0);
		busy_until += 800000;
		trace->busy_until_ns = busy_until;
		trace->mean_ns = 800000;
		if (step % waits_every == waits_every - 1) {
			trace_run(trace, REDUCE, 90, 2, 0);
			if (busy_until > trace->now_ns)
				trace_pass(trace, busy_until - trace->now_ns);
		}
		trace_step_ends(trace);
	}
}

static void ahead(struct trace *trace)
{
	run_ahead(trace, 3000, 100);
}

/* --- it waits when all is launched --- */

static void far_ahead(struct trace *trace)
{
	run_ahead(trace, 50000, 50000);
}

/*
 * --- gradients of 32 batches, and 5 in the end of an epoch; validation after each epoch; two
 * threads ---
 */

static void epochs(struct trace *trace)
{
	for (unsigned epoch = 0; epoch < 8; epoch++) {
		for (unsigned batch = 0; batch < 32 * 9 + 5; batch++) {
			if (batch % 32 == 0)
				trace_step_begins(trace);
			trace_run(trace, EMBEDDING, 50, 1, 0);
			for (unsigned layer = 0; layer < 4; layer++)
				trace_run(trace, BLAS, 200, 3, 0),
				    trace_run(trace, POINTWISE, 210, 2, 0);
			trace_run(trace, CRITERION, 130, 2, 0);
			for (unsigned layer = 0; layer < 4; layer++)
				trace_run(trace, POINTWISE, 212, 3, 0),
				    trace_run(trace, BLAS, 203, 5, 0);
			trace_run(trace, EMBEDDING, 51, 1, 0);
			trace_pass(trace, 2 * MILLISECOND);
			if (batch % 32 != 31 && batch != 32 * 9 + 4)
				continue;
			trace_run(trace, REDUCE, 130, 2, 0);
			trace_run(trace, MULTI_TENSOR, 180, 6, 0);
			trace_pass(trace, MILLISECOND + trace_random(trace, MILLISECOND));
			trace_step_ends(trace);
		}
		for (unsigned batch = 0; batch < 40; batch++) {
			trace_run(trace, EMBEDDING, 50, 1, 0);
			for (unsigned layer = 0; layer < 4; layer++)
				trace_run(trace, BLAS, 200, 3, 0),
				    trace_run(trace, POINTWISE, 210, 2, 0);
			trace_run(trace, CRITERION, 130, 2, 0);
			trace_pass(trace, MILLISECOND);
		}
	}
	trace_jitter(trace, 3, 2);
}

/*
 * --- sound, as long as it is, in one graph for each of 12 lengths, an optimizer outside of them
 * ---
 */

static void lengths(struct trace *trace)
{
	for (unsigned step = 0; step < 1500; step++) {
		unsigned length = (unsigned)trace_random(trace, 12);

		trace_step_begins(trace);
		trace_run(trace, COPY, 80, 2, length);
		trace_run(trace, 160, length, 1, 0);
		trace_run(trace, REDUCE, 140, 2, 0);
		trace_run(trace, MULTI_TENSOR, 190, 2, 0);
		trace_pass(trace, (2 + length) * MILLISECOND / 2);
		trace_step_ends(trace);
	}
}

/* --- a long step: 8000 launches of few functions, the same ones forward and backward --- */

static void deep(struct trace *trace)
{
	for (unsigned step = 0; step < 45; step++) {
		trace_step_begins(trace);
		trace_run(trace, EMBEDDING, 60, 1, 0);
		for (unsigned layer = 0; layer < 150; layer++)
			trace_run(trace, BLAS, 220, 4, 0), trace_run(trace, ELEMENTWISE, 90, 8, 0),
			    trace_run(trace, POINTWISE, 220, 3, 0);
		trace_run(trace, CRITERION, 140, 3, 0);
		for (unsigned layer = 0; layer < 150; layer++)
			trace_run(trace, BLAS, 220, 4, 1), trace_run(trace, ELEMENTWISE, 90, 8, 1),
			    trace_run(trace, POINTWISE, 230, 6, 0),
			    trace_run(trace, BLAS, 220, 4, 2),
			    trace_run(trace, ELEMENTWISE, 92, 6, 1);
		for (unsigned parameter = 0; parameter < 600; parameter++)
			trace_run(trace, ELEMENTWISE, 90, 3, parameter);
		trace_pass(trace, 160 * MILLISECOND + trace_random(trace, 10 * MILLISECOND));
		trace_step_ends(trace);
	}
}

/*
 * --- one graph of everything, with its data copied in by two kernels; every 500 steps it is
 * captured anew ---
 */

static void captured_anew(struct trace *trace)
{
	for (unsigned step = 0; step < 2000; step++) {
		if (step % 500 == 0)
			trace_run(trace, POINTWISE, 240, 60, 0);
		trace_step_begins(trace);
		trace_run(trace, COPY, 100, 2, 0);
		trace_run(trace, 170, step / 500, 1, 0);
		trace_pass(trace, 4 * MILLISECOND + trace_random(trace, MILLISECOND));
		trace_step_ends(trace);
	}
}

static const struct program {
	const char *name;
	void (*run)(struct trace *trace);
	unsigned missed;
} programs[] = {
    {"captured_anew", captured_anew, 3},
    {"deep", deep, 3},
    {"lengths", lengths, 3},
    {"epochs", epochs, 3},
    {"ahead", ahead, 3},
    {"far_ahead", far_ahead, 3},
    {"speech", speech, 3},
    {"vision", vision, 3},
    {"clouds", clouds, 3},
    {"translation", translation, 6},
    {"adversarial", adversarial, 3},
    {"compiled", compiled, 6},
    {"trees", trees, 3},
    {"compiled_wide", compiled_wide, 3},
    {"growing", growing, 3},
    {"objects", objects, 3},
};

START_TEST(steps_of_programs_are_found)
{
	const struct program *program = &programs[_i];
	struct trace trace;
	const char *wrong;

	trace_start(&trace, (uint64_t)_i + 100);
	program->run(&trace);
	wrong = trace_judge(program->name, &trace, program->missed);
	ck_assert_msg(!wrong, "%s", wrong);
	trace_free(&trace);
}
END_TEST

static const char *const recordings[] = {"demo", "tinygrad", "tinygrad_graphs"};

START_TEST(steps_of_recordings_are_found)
{
	const char *wrong;
	struct trace trace;
	char path[128];

	snprintf(path, sizeof(path), "tests/unit/data/%s.trace", recordings[_i]);
	ck_assert_msg(trace_read(&trace, path), "%s", path);
	wrong = trace_judge(recordings[_i], &trace, 3);
	ck_assert_msg(!wrong, "%s", wrong);
	trace_free(&trace);
}
END_TEST

/* --- rules --- */

/* Another model is taken up after a while, and the steps since it began are counted. */
START_TEST(another_model_is_found)
{
	struct trace_found found;
	struct trace trace;

	trace_start(&trace, 200);
	one_after_the_other(&trace);
	found = trace_detect(&trace);
	ck_assert_msg(found.steps >= 1190 && found.steps <= 1220, "%llu",
	              (unsigned long long)found.steps);
	ck_assert_msg(found.mean_ns > 6200000 && found.mean_ns < 6300000, "%llu",
	              (unsigned long long)found.mean_ns);
	trace_free(&trace);
}
END_TEST

static uint64_t random_function(struct trace *trace, int kind, unsigned i)
{
	uint64_t r = trace_random(trace, 400);

	switch (kind) {
	case 0:
		return r % 8;
	case 1:
		return r % 100;
	case 2:
		return r * r / 400; /* some seldom */
	case 3:
		return i % 2 ? r % 20 : 50; /* after each a fill */
	case 4:
		return 1; /* one, with random grids */
	case 5:
		return trace_chance(trace, 0.5) ? 9 : r % 5; /* one very seldom */
	case 6:
		return i / 2000 * 10 + r % 10; /* always others */
	default:
		return trace_chance(trace, 3) ? 30 : r % 3 + 10 * (i / 500 % 4);
	}
}

START_TEST(random_launches_are_no_steps)
{
	struct trace_found found;
	struct trace trace;

	trace_start(&trace, 300 + (uint64_t)_i);
	for (unsigned i = 0; i < 300000; i++)
		trace_add(&trace, random_function(&trace, _i, i), trace_random(&trace, 20));
	found = trace_detect(&trace);
	ck_assert_uint_eq(found.told, 0);
	ck_assert_uint_eq(found.steps, 0);
	trace_free(&trace);
}
END_TEST

/* Requests to five models, as they come. */
START_TEST(requests_are_no_steps)
{
	struct trace trace;

	trace_start(&trace, 350);
	while (trace.count < 300000) {
		unsigned model = (unsigned)trace_random(&trace, 5);

		trace_run(&trace, 200 + model, 0, 20 + model * 13, 0);
		trace_pass(&trace, trace_random(&trace, 20 * MILLISECOND));
	}
	ck_assert_uint_eq(trace_detect(&trace).told, 0);
	trace_free(&trace);
}
END_TEST

/* Where the program waits each time, that is where its steps end. */
START_TEST(steps_end_where_the_program_waits)
{
	struct trace_found found;
	struct trace trace;

	trace_start(&trace, 1);
	train(&trace, &networks[0]);
	found = trace_detect(&trace);
	ck_assert_uint_gt(found.told, 1000);
	ck_assert_uint_eq(found.at_their_end, found.told);
	trace_free(&trace);
}
END_TEST

/* 20 steps, then a validation; each ended step by step. */
START_TEST(numbers_and_times_are_those_of_the_steps)
{
	const struct network network = {.layers = 5,
	                                .kernels = 3,
	                                .steps = 600,
	                                .step_us = 5000,
	                                .validate_every = 20,
	                                .validation_batches = 4};
	struct step_detector *detector = step_create();
	struct step ended, before = {0};
	uint64_t own_ns = 0, mixed = 0, told = 0, last_ns = 0;
	struct trace trace;

	ck_assert_ptr_nonnull(detector);
	trace_start(&trace, 400);
	train(&trace, &network);
	for (size_t i = 0; i < trace.count; i++) {
		const struct trace_launch *l = &trace.launches[i];

		if (!step_launch(detector, l->function, l->shape, l->ns, &ended))
			continue;
		ck_assert(!before.number || ended.number == before.number + 1);
		told++;
		mixed += !ended.is_whole;
		own_ns = l->step_ns;
		ck_assert(ended.is_first == (told == 1));
		if (ended.is_whole && !ended.is_first)
			ck_assert_uint_lt(l->ns - last_ns, 12000000); /* no validation lies in it */
		last_ns = l->ns;
		before = ended;
	}
	ck_assert_uint_gt(told, 300);
	ck_assert_uint_gt(own_ns, 0);
	ck_assert_uint_le(mixed, told / 20 + 2);
	ck_assert_uint_ge(before.number, 598);
	ck_assert_uint_le(before.number, 601);
	free(detector);
	trace_free(&trace);
}
END_TEST

/* Whatever is launched, and whatever the clock says. */
START_TEST(nothing_disturbs_it)
{
	struct step_detector *detector = step_create();
	struct step ended;
	struct trace trace;
	uint64_t now = 0;

	ck_assert_ptr_nonnull(detector);
	trace_start(&trace, 500 + (uint64_t)_i);
	for (unsigned part = 0; part < 40; part++) {
		unsigned functions =
		    1 + (unsigned)trace_random(&trace, trace_chance(&trace, 30) ? 3000 : 30);
		unsigned period =
		    1 + (unsigned)trace_random(&trace, trace_chance(&trace, 20) ? 9000 : 60);
		double noise = trace_chance(&trace, 50) ? 0 : (double)trace_random(&trace, 100);

		for (unsigned i = 0; i < 20000; i++) {
			uint64_t function = trace_chance(&trace, noise)
			                        ? trace_random(&trace, functions)
			                        : i % period % functions;

			now += trace_chance(&trace, 1)
			           ? UINT64_MAX / 2 + trace_random(&trace, UINT64_MAX / 2)
			           : trace_random(&trace, 100000);
			if (step_launch(detector, function, trace_random(&trace, 3), now, &ended)) {
				ck_assert_uint_gt(ended.number, 0);
				ck_assert_uint_le(ended.number, part * 20000 + i);
			}
		}
	}
	free(detector);
	trace_free(&trace);
}
END_TEST

START_TEST(a_new_detector_knows_nothing)
{
	struct step_detector *detector = step_create();
	struct step ended;

	ck_assert_ptr_nonnull(detector);
	for (unsigned i = 0; i < 500; i++)
		ck_assert(!step_launch(detector, i % 2, 0, i, &ended));
	free(detector);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("step");

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, steps_of_networks_are_found, 0,
	                    sizeof(networks) / sizeof(*networks));
	tcase_add_loop_test(tests, steps_of_programs_are_found, 0,
	                    sizeof(programs) / sizeof(*programs));
	tcase_add_loop_test(tests, steps_of_recordings_are_found, 0,
	                    sizeof(recordings) / sizeof(*recordings));
	tcase_add_test(tests, another_model_is_found);
	tcase_add_loop_test(tests, random_launches_are_no_steps, 0, 8);
	tcase_add_test(tests, requests_are_no_steps);
	tcase_add_test(tests, steps_end_where_the_program_waits);
	tcase_add_test(tests, numbers_and_times_are_those_of_the_steps);
	tcase_add_loop_test(tests, nothing_disturbs_it, 0, 8);
	tcase_add_test(tests, a_new_detector_knows_nothing);
	return suite_run("step", tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * Trains a multi-layer perceptron on handwritten digits with the CUDA Driver API alone.
 *
 * shard        augmented views of every training image, made on the device; the newest WINDOW
 *              shards are what batches are drawn from, and each epoch replaces the oldest
 * data stream  makes shards, uploads each epoch's order, gathers batches into two buffers by turns
 * train stream forward, backward and Adam on one batch while the next is gathered
 * test stream  copies the weights (a snapshot) after each epoch and tests them while the next epoch
 *              trains
 *
 * The final weights are the mean of the last SNAPSHOTS snapshots. All sums have one order, so that
 * the same seed gives the same bits on the same device.
 */
#include "tests/clients/client.h"
#include "tests/clients/digits.h"
#include "tests/clients/program.h"

#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	LAYERS = 3,
	WINDOW = 8,
	SNAPSHOTS = 4,
	VIEWS = 10, /* of each image in a shard, times --scale */
	TILE = 32,  /* as in train_kernels.cu */
};

static const float learning_rate = 4e-3f;

static struct {
	unsigned epochs, hidden, batch, seed, scale;
	bool quiet;
} options = {.epochs = 24, .hidden = 64, .batch = 32, .seed = 1, .scale = 1};

static struct {
	CUfunction expand_views, gather_batch;
	CUfunction dense_forward, dense_backward_input, dense_backward_weights, dense_backward_bias;
	CUfunction softmax_loss, adam, accumulate, count_correct;
} kernels;

static CUstream data_stream, train_stream, test_stream;

/* Where a layer's parameters are, counted in floats from the start of a parameter vector. */
static struct layer {
	unsigned in, out;
	size_t weights, bias;
} layers[LAYERS];
static unsigned parameter_count;

/* The outputs of every layer for one batch. */
struct activations {
	CUdeviceptr y[LAYERS];
};

/* Everything the training keeps on the device from start to end. */
static struct {
	CUdeviceptr pixels, labels;           /* training images */
	CUdeviceptr test_images, test_labels; /* float, 0 to 1 */
	CUdeviceptr shards[WINDOW];
	CUdeviceptr weights, gradient, mean, variance; /* parameter vectors */
	struct activations activations, deltas;
	struct batch {
		CUdeviceptr x, labels;
		CUevent ready, consumed;
	} batches[2];
} device;

/* One epoch; it ends in report(), while the next epoch trains. */
struct epoch {
	CUdeviceptr order, losses, snapshot;
	CUdeviceptr retired_shard; /* the one this epoch's replaced */
	struct activations test_activations;
	CUdeviceptr test_correct;
	CUevent tested;
};

/* The host's side of an epoch, in pinned memory; two epochs are under way at a time. */
struct exchange {
	uint32_t order[DIGITS_TRAINING];
	float losses[DIGITS_TRAINING];
	uint32_t correct;
};
static struct exchange *pinned;

static size_t shard_bytes(void)
{
	return sizeof(float) * DIGITS_TRAINING * DIGITS_PIXELS * VIEWS * options.scale;
}

static size_t parameter_bytes(void)
{
	return sizeof(float) * parameter_count;
}

static CUdeviceptr float_at(CUdeviceptr vector, size_t index)
{
	return vector + sizeof(float) * index;
}

static unsigned blocks(unsigned items, unsigned per_block)
{
	return (items + per_block - 1) / per_block;
}

static void define_layers(void)
{
	const unsigned widths[LAYERS + 1] = {DIGITS_PIXELS, options.hidden, options.hidden,
	                                     DIGITS_CLASSES};
	size_t at = 0;

	for (int l = 0; l < LAYERS; l++) {
		layers[l].in = widths[l];
		layers[l].out = widths[l + 1];
		layers[l].weights = at;
		at += (size_t)layers[l].in * layers[l].out;
		layers[l].bias = at;
		at += layers[l].out;
	}
	parameter_count = at;
}

static CUmodule load_kernels(void)
{
	CUmodule module = client_load_module("train_kernels.ptx");

	kernels.expand_views = client_function(module, "expand_views");
	kernels.gather_batch = client_function(module, "gather_batch");
	kernels.dense_forward = client_function(module, "dense_forward");
	kernels.dense_backward_input = client_function(module, "dense_backward_input");
	kernels.dense_backward_weights = client_function(module, "dense_backward_weights");
	kernels.dense_backward_bias = client_function(module, "dense_backward_bias");
	kernels.softmax_loss = client_function(module, "softmax_loss");
	kernels.adam = client_function(module, "adam");
	kernels.accumulate = client_function(module, "accumulate");
	kernels.count_correct = client_function(module, "count_correct");
	return module;
}

static struct activations alloc_activations(unsigned samples)
{
	struct activations a;

	for (int l = 0; l < LAYERS; l++)
		a.y[l] = client_alloc(sizeof(float) * samples * layers[l].out);
	return a;
}

static void free_activations(struct activations *a, unsigned samples)
{
	for (int l = 0; l < LAYERS; l++)
		client_free(&a->y[l], sizeof(float) * samples * layers[l].out);
}

static void fill_shard(CUdeviceptr shard, unsigned number)
{
	unsigned images = DIGITS_TRAINING, views = VIEWS * options.scale;
	unsigned seed = options.seed * 0x10001u + number;

	CLIENT_LAUNCH(kernels.expand_views, blocks(images * views * 8, 128), 1, 128, data_stream,
	              &device.pixels, &shard, &images, &views, &seed);
}

static void upload_digits(void)
{
	struct digits *digits = digits_read();
	float(*test)[DIGITS_PIXELS] = malloc(sizeof(*test) * DIGITS_TESTING);

	if (!test)
		program_die("out of memory");
	for (int i = 0; i < DIGITS_TESTING; i++)
		for (int pixel = 0; pixel < DIGITS_PIXELS; pixel++)
			test[i][pixel] = digits->pixels[DIGITS_TRAINING + i][pixel] / 16.0f;

	const struct {
		CUdeviceptr *to;
		const void *from;
		size_t size;
	} uploads[] = {
	    {&device.pixels, digits->pixels, sizeof(*digits->pixels) * DIGITS_TRAINING},
	    {&device.labels, digits->labels, sizeof(*digits->labels) * DIGITS_TRAINING},
	    {&device.test_images, test, sizeof(*test) * DIGITS_TESTING},
	    {&device.test_labels, digits->labels + DIGITS_TRAINING,
	     sizeof(*digits->labels) * DIGITS_TESTING},
	};
	for (size_t i = 0; i < sizeof(uploads) / sizeof(*uploads); i++) {
		*uploads[i].to = client_alloc(uploads[i].size);
		CU(cuMemcpyHtoD(*uploads[i].to, uploads[i].from, uploads[i].size));
	}
	free(test);
	free(digits);
}

/* Weights uniform in +-sqrt(6 / in), biases zero. */
static void upload_first_weights(uint64_t *random)
{
	float *weights = calloc(parameter_count, sizeof(*weights));

	if (!weights)
		program_die("out of memory");
	for (int l = 0; l < LAYERS; l++) {
		float bound = sqrtf(6.0f / (float)layers[l].in);
		for (size_t i = layers[l].weights; i < layers[l].bias; i++) {
			float unit = (float)(random_next(random) >> 40) / (float)(1 << 24);
			weights[i] = bound * (2.0f * unit - 1.0f);
		}
	}
	CU(cuMemcpyHtoD(device.weights, weights, parameter_bytes()));
	free(weights);
}

static void set_up(uint64_t *random)
{
	CU(cuStreamCreate(&data_stream, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&train_stream, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&test_stream, CU_STREAM_NON_BLOCKING));
	CU(cuMemHostAlloc((void **)&pinned, sizeof(*pinned) * 2, 0));

	upload_digits();
	for (unsigned i = 0; i < WINDOW; i++) {
		device.shards[i] = client_alloc(shard_bytes());
		fill_shard(device.shards[i], i);
	}
	device.weights = client_alloc(parameter_bytes());
	device.gradient = client_alloc(parameter_bytes());
	device.mean = client_alloc(parameter_bytes());
	device.variance = client_alloc(parameter_bytes());
	upload_first_weights(random);
	CU(cuMemsetD32Async(device.mean, 0, parameter_count, train_stream));
	CU(cuMemsetD32Async(device.variance, 0, parameter_count, train_stream));
	device.activations = alloc_activations(options.batch);
	device.deltas = alloc_activations(options.batch);
	for (int i = 0; i < 2; i++) {
		device.batches[i].x = client_alloc(sizeof(float) * options.batch * DIGITS_PIXELS);
		device.batches[i].labels = client_alloc(sizeof(uint32_t) * options.batch);
		CU(cuEventCreate(&device.batches[i].ready, CU_EVENT_DISABLE_TIMING));
		CU(cuEventCreate(&device.batches[i].consumed, CU_EVENT_DISABLE_TIMING));
	}
}

static void forward(CUstream stream, CUdeviceptr weights, CUdeviceptr x, struct activations *a,
                    unsigned samples)
{
	for (int l = 0; l < LAYERS; l++) {
		struct layer *layer = &layers[l];
		CUdeviceptr w = float_at(weights, layer->weights);
		CUdeviceptr bias = float_at(weights, layer->bias);
		unsigned relu = l < LAYERS - 1;
		CLIENT_LAUNCH(kernels.dense_forward, blocks(layer->out, TILE),
		              blocks(samples, TILE), 64, stream, l ? &a->y[l - 1] : &x, &w, &bias,
		              &a->y[l], &samples, &layer->in, &layer->out, &relu);
	}
}

/* From the deltas of the last layer: the gradient of every parameter. */
static void backward(CUstream stream, CUdeviceptr x, unsigned samples)
{
	for (int l = LAYERS - 1; l >= 0; l--) {
		struct layer *layer = &layers[l];
		CUdeviceptr *input = l ? &device.activations.y[l - 1] : &x;
		CUdeviceptr *delta = &device.deltas.y[l];
		CUdeviceptr w = float_at(device.weights, layer->weights);
		CUdeviceptr dw = float_at(device.gradient, layer->weights);
		CUdeviceptr dbias = float_at(device.gradient, layer->bias);

		CLIENT_LAUNCH(kernels.dense_backward_weights, blocks(layer->out, TILE),
		              blocks(layer->in, TILE), 64, stream, input, delta, &dw, &samples,
		              &layer->in, &layer->out);
		CLIENT_LAUNCH(kernels.dense_backward_bias, blocks(layer->out, 64), 1, 64, stream,
		              delta, &dbias, &samples, &layer->out);
		if (l > 0)
			CLIENT_LAUNCH(kernels.dense_backward_input, blocks(layer->in, TILE),
			              blocks(samples, TILE), 64, stream, delta, &w, input,
			              &device.deltas.y[l - 1], &samples, &layer->in, &layer->out);
	}
}

/* Step number `step` (from 0, over all epochs) on the samples from `first` of the epoch's order. */
static void train_step(struct epoch *epoch, unsigned step, unsigned first)
{
	unsigned images = DIGITS_TRAINING;
	unsigned samples = DIGITS_TRAINING - first;
	if (samples > options.batch)
		samples = options.batch;
	struct batch *batch = &device.batches[step % 2];

	/* By turns from all shards of the window, so that all of it stays in use. */
	CUdeviceptr *shard = &device.shards[step % WINDOW];
	CUdeviceptr order = epoch->order + sizeof(uint32_t) * first;
	CU(cuStreamWaitEvent(data_stream, batch->consumed, 0));
	CLIENT_LAUNCH(kernels.gather_batch, samples, 1, DIGITS_PIXELS, data_stream, shard, &order,
	              &device.labels, &images, &batch->x, &batch->labels);
	CU(cuEventRecord(batch->ready, data_stream));

	CUdeviceptr loss = float_at(epoch->losses, first);
	CU(cuStreamWaitEvent(train_stream, batch->ready, 0));
	forward(train_stream, device.weights, batch->x, &device.activations, samples);
	CLIENT_LAUNCH(kernels.softmax_loss, blocks(samples, 64), 1, 64, train_stream,
	              &device.activations.y[LAYERS - 1], &batch->labels, &loss,
	              &device.deltas.y[LAYERS - 1], &samples);
	backward(train_stream, batch->x, samples);
	CU(cuEventRecord(batch->consumed, train_stream));

	float rate = learning_rate;
	float correction1 = 1.0f - powf(0.9f, (float)(step + 1));
	float correction2 = 1.0f - powf(0.999f, (float)(step + 1));
	CLIENT_LAUNCH(kernels.adam, blocks(parameter_count, 128), 1, 128, train_stream,
	              &device.weights, &device.gradient, &device.mean, &device.variance,
	              &parameter_count, &rate, &correction1, &correction2);
}

/* An epoch's order: every image once, each in a random one of its views. */
static void draw_order(uint32_t *order, uint64_t *random)
{
	for (uint32_t i = 0; i < DIGITS_TRAINING; i++)
		order[i] = i;
	random_shuffle(random, order, DIGITS_TRAINING);
	for (uint32_t i = 0; i < DIGITS_TRAINING; i++)
		order[i] += random_next(random) % (VIEWS * options.scale) * DIGITS_TRAINING;
}

/* Enqueues the training of one epoch; nothing here waits for the device. */
static unsigned train_epoch(struct epoch *epoch, unsigned number, unsigned step, uint64_t *random)
{
	if (number > 0) {
		CUdeviceptr *oldest = &device.shards[number % WINDOW];
		epoch->retired_shard = *oldest;
		*oldest = client_alloc(shard_bytes());
		fill_shard(*oldest, WINDOW + number);
	}
	uint32_t *order = pinned[number % 2].order;
	draw_order(order, random);
	epoch->order = client_alloc(sizeof(pinned->order));
	epoch->losses = client_alloc(sizeof(pinned->losses));
	CU(cuMemcpyHtoDAsync(epoch->order, order, sizeof(pinned->order), data_stream));
	for (unsigned first = 0; first < DIGITS_TRAINING; first += options.batch)
		train_step(epoch, step++, first);
	CU(cuMemcpyDtoHAsync(pinned[number % 2].losses, epoch->losses, sizeof(pinned->losses),
	                     train_stream));
	return step;
}

/* Enqueues a test of the weights on the test stream; the count arrives in *correct. */
static void test(CUdeviceptr weights, struct activations *activations, CUdeviceptr counter,
                 uint32_t *correct)
{
	unsigned samples = DIGITS_TESTING;

	CU(cuMemsetD32Async(counter, 0, 1, test_stream));
	forward(test_stream, weights, device.test_images, activations, samples);
	CLIENT_LAUNCH(kernels.count_correct, blocks(samples, 64), 1, 64, test_stream,
	              &activations->y[LAYERS - 1], &device.test_labels, &samples, &counter);
	CU(cuMemcpyDtoHAsync(correct, counter, sizeof(*correct), test_stream));
}

/* Enqueues a snapshot of the weights as they are now, and its test beside the epoch to come. */
static void test_epoch(struct epoch *epoch, unsigned number)
{
	CUevent trained, copied;

	CU(cuEventCreate(&trained, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&epoch->tested, CU_EVENT_DISABLE_TIMING));
	epoch->snapshot = client_alloc(parameter_bytes());
	epoch->test_activations = alloc_activations(DIGITS_TESTING);
	epoch->test_correct = client_alloc(sizeof(uint32_t));

	CU(cuEventRecord(trained, train_stream));
	CU(cuStreamWaitEvent(test_stream, trained, 0));
	CU(cuMemcpyDtoDAsync(epoch->snapshot, device.weights, parameter_bytes(), test_stream));
	CU(cuEventRecord(copied, test_stream));
	CU(cuStreamWaitEvent(train_stream, copied, 0));
	test(epoch->snapshot, &epoch->test_activations, epoch->test_correct,
	     &pinned[number % 2].correct);
	CU(cuEventRecord(epoch->tested, test_stream));
	CU(cuEventDestroy(trained));
	CU(cuEventDestroy(copied));
}

/* Waits for an epoch's test, prints its results and frees all but its snapshot. */
static void report(struct epoch *epoch, unsigned number)
{
	double loss = 0;

	CU(cuEventSynchronize(epoch->tested));
	CU(cuEventDestroy(epoch->tested));
	for (int i = 0; i < DIGITS_TRAINING; i++)
		loss += pinned[number % 2].losses[i];
	if (!options.quiet)
		printf("epoch %u: loss %.4f, test accuracy %.2f %%\n", number + 1,
		       loss / DIGITS_TRAINING, 100.0 * pinned[number % 2].correct / DIGITS_TESTING);
	client_free(&epoch->order, sizeof(pinned->order));
	client_free(&epoch->losses, sizeof(pinned->losses));
	client_free(&epoch->test_correct, sizeof(uint32_t));
	free_activations(&epoch->test_activations, DIGITS_TESTING);
	/* This epoch was the last to read the shard that the next one replaced, and it is over. */
	client_free(&epoch[1].retired_shard, shard_bytes());
	if (number >= SNAPSHOTS)
		client_free(&epoch[-SNAPSHOTS].snapshot, parameter_bytes());
}

/* Makes the weights the mean of the last snapshots and returns how many test images they get right.
 */
static unsigned finish(struct epoch *epochs)
{
	unsigned used = options.epochs < SNAPSHOTS ? options.epochs : SNAPSHOTS;
	float factor = 1.0f / (float)used;
	struct activations activations = alloc_activations(DIGITS_TESTING);
	CUdeviceptr counter = client_alloc(sizeof(uint32_t));

	CU(cuMemsetD32Async(device.weights, 0, parameter_count, test_stream));
	for (unsigned i = options.epochs - used; i < options.epochs; i++)
		CLIENT_LAUNCH(kernels.accumulate, blocks(parameter_count, 128), 1, 128, test_stream,
		              &device.weights, &epochs[i].snapshot, &factor, &parameter_count);
	test(device.weights, &activations, counter, &pinned->correct);
	CU(cuStreamSynchronize(test_stream));
	for (unsigned i = options.epochs - used; i < options.epochs; i++)
		client_free(&epochs[i].snapshot, parameter_bytes());
	free_activations(&activations, DIGITS_TESTING);
	client_free(&counter, sizeof(uint32_t));
	return pinned->correct;
}

/* FNV-1a, 64 bits, over the bytes of all weights. */
static uint64_t checksum(void)
{
	uint64_t hash = 0xcbf29ce484222325;
	unsigned char *weights = malloc(parameter_bytes());

	if (!weights)
		program_die("out of memory");
	CU(cuMemcpyDtoH(weights, device.weights, parameter_bytes()));
	for (size_t i = 0; i < parameter_bytes(); i++)
		hash = (hash ^ weights[i]) * 0x100000001b3;
	free(weights);
	return hash;
}

static void tear_down(void)
{
	client_free(&device.pixels, (size_t)DIGITS_TRAINING * DIGITS_PIXELS);
	client_free(&device.labels, sizeof(uint32_t) * DIGITS_TRAINING);
	client_free(&device.test_images, sizeof(float) * DIGITS_TESTING * DIGITS_PIXELS);
	client_free(&device.test_labels, sizeof(uint32_t) * DIGITS_TESTING);
	for (int i = 0; i < WINDOW; i++)
		client_free(&device.shards[i], shard_bytes());
	client_free(&device.weights, parameter_bytes());
	client_free(&device.gradient, parameter_bytes());
	client_free(&device.mean, parameter_bytes());
	client_free(&device.variance, parameter_bytes());
	free_activations(&device.activations, options.batch);
	free_activations(&device.deltas, options.batch);
	for (int i = 0; i < 2; i++) {
		client_free(&device.batches[i].x, sizeof(float) * options.batch * DIGITS_PIXELS);
		client_free(&device.batches[i].labels, sizeof(uint32_t) * options.batch);
		CU(cuEventDestroy(device.batches[i].ready));
		CU(cuEventDestroy(device.batches[i].consumed));
	}
	CU(cuMemFreeHost(pinned));
	CU(cuStreamDestroy(data_stream));
	CU(cuStreamDestroy(train_stream));
	CU(cuStreamDestroy(test_stream));
}

static void parse_options(int argc, char **argv)
{
	static const struct option known[] = {
	    {"epochs", required_argument, NULL, 'e'}, {"hidden", required_argument, NULL, 'w'},
	    {"batch", required_argument, NULL, 'b'},  {"seed", required_argument, NULL, 's'},
	    {"scale", required_argument, NULL, 'x'},  {"quiet", no_argument, NULL, 'q'},
	    {"help", no_argument, NULL, 'h'},         {0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "q", known, NULL)) != -1) {
		switch (option) {
		case 'e':
			options.epochs = program_number("epochs", optarg, 1, 1000000);
			break;
		case 'w':
			options.hidden = program_number("hidden", optarg, 1, 16384);
			break;
		case 'b':
			options.batch = program_number("batch", optarg, 1, DIGITS_TRAINING);
			break;
		case 's':
			options.seed = program_number("seed", optarg, 0, 1000000000);
			break;
		case 'x':
			options.scale = program_number("scale", optarg, 1, 1024);
			break;
		case 'q':
			options.quiet = true;
			break;
		case 'h':
			puts("Usage: train_mlp [OPTION...]\n"
			     "Trains a multi-layer perceptron on 8x8 handwritten digits on CUDA "
			     "device 0.\n"
			     "  --epochs N  passes over the training images (24)\n"
			     "  --hidden N  width of the two hidden layers (64)\n"
			     "  --batch N   images per step (32)\n"
			     "  --seed N    same seed, same weights, on the same device (1)\n"
			     "  --scale N   makes the working set about N times as large (1)\n"
			     "  --quiet     print the last line only");
			exit(0);
		default:
			exit(2);
		}
	}
	if (optind < argc)
		program_die("'%s': expected options only; see --help", argv[optind]);
}

int main(int argc, char **argv)
{
	char name[256];
	unsigned step = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	parse_options(argc, argv);
	CUdevice gpu = client_open_device(name);
	CUmodule module = load_kernels();
	define_layers();
	if (!options.quiet)
		printf("Training %u-%u-%u-%u, %u parameters, on %s\n", layers[0].in, layers[1].in,
		       layers[2].in, layers[2].out, parameter_count, name);

	uint64_t random = options.seed;
	set_up(&random);

	/* One more than there are: report() looks at the next one's retired shard. */
	struct epoch *epochs = calloc(options.epochs + 1, sizeof(*epochs));
	if (!epochs)
		program_die("out of memory");
	/* The first weights and zeroed moments come through other streams than the training. */
	CU(cuCtxSynchronize());
	double start_ms = program_now_ms();
	for (unsigned e = 0; e < options.epochs; e++) {
		step = train_epoch(&epochs[e], e, step, &random);
		test_epoch(&epochs[e], e);
		if (e > 0)
			report(&epochs[e - 1], e - 1);
	}
	report(&epochs[options.epochs - 1], options.epochs - 1);
	double step_ms = (program_now_ms() - start_ms) / step;

	unsigned correct = finish(epochs);
	printf("train_mlp: device=\"%s\" steps=%u accuracy=%.2f step_ms=%.3f working_set=%zu "
	       "checksum=%016llx\n",
	       name, step, 100.0 * correct / DIGITS_TESTING, step_ms, client_peak_bytes(),
	       (unsigned long long)checksum());
	tear_down();
	free(epochs);
	CU(cuModuleUnload(module));
	client_close_device(gpu);
	return 0;
}

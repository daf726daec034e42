/* SPDX-License-Identifier: MIT */
/*
 * engine REQUESTS SECONDS [SEED]: a program that behaves like an inference engine, for jobs that
 * share a GPU. So many clients send a request, read its tokens, and send the next one after a
 * random time.
 *
 * A request is a prefill, 8 kernels of 1 to 4 ms, and 16 to 64 tokens. A decode step yields a token
 * for each request that runs: 400 kernels of 20 us, of which 300 are a graph, and a wait for the
 * result. Between steps the engine works on the host for 0.7 ms.
 *
 * Figures are of the time after the first second: tokens, elapsed_ms and the median time to first
 * token (ttft_us). Then the median and the 99th percentile of the time between tokens (tbt_us,
 * tbt_p99_us).
 */
#include "tests/bench/measure.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	REQUESTS_MOST = 256,
	SAMPLES_MOST = 1 << 20,
	PREFILL_KERNELS = 8,
	PREFILL_US = 1000, /* to four times as long */
	DECODE_US = 20,
	DECODE_GRAPH = 300,
	DECODE_KERNELS = 100,
	HOST_US = 700,
	TOKENS_LEAST = 16,
	TOKENS_MOST = 64,
	WARM_UP_MS = 1000,
};
#define PAUSE_MEAN_MS 200.0 /* of a client */

/* Two kernels, as an engine has: a launch of either costs about what the last one did. */
#define KERNEL(name)                                                   \
	".visible .entry " name "(.param .u32 ns)\n{\n.reg .b32 %r;\n" \
	"ld.param.u32 %r, [ns];\nnanosleep.u32 %r;\nret;\n}\n"
static const char ptx[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n" KERNEL("prefill") KERNEL("decode");

enum state { PAUSES, WAITS, RUNS };

static struct request {
	enum state state;
	double at_ns; /* when it arrives; when it had its last token */
	int left;     /* tokens */
	/* Of its client alone, so that runs of one seed have the same requests, whatever beside. */
	unsigned random_state;
} request[REQUESTS_MOST];
static int requests;

struct samples {
	double us[SAMPLES_MOST];
	int count;
};

static struct samples first_token, between_tokens;
static unsigned long tokens;
static CUfunction prefill_kernel, decode_kernel;
static CUgraphExec decode_graph;
static CUstream stream;

static double chance(struct request *r)
{
	return (rand_r(&r->random_state) + 1.0) / (RAND_MAX + 2.0);
}

static void launch(CUfunction kernel, unsigned us)
{
	unsigned ns = us * 1000;

	CU(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&ns}, NULL));
}

static void make_graph(void)
{
	CUgraph graph;

	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < DECODE_GRAPH; i++)
		launch(decode_kernel, DECODE_US);
	CU(cuStreamEndCapture(stream, &graph));
	CU(cuGraphInstantiateWithFlags(&decode_graph, graph, 0));
	CU(cuGraphDestroy(graph));
}

static void note(struct samples *samples, double ns)
{
	if (samples->count < SAMPLES_MOST)
		samples->us[samples->count++] = ns / 1e3;
}

static void end_request(struct request *r, double now)
{
	r->state = PAUSES;
	r->at_ns = now - PAUSE_MEAN_MS * 1e6 * log(chance(r));
}

static void prefill(struct request *r)
{
	unsigned us = (unsigned)(PREFILL_US * (1 + 3 * chance(r)));
	double now;

	for (int i = 0; i < PREFILL_KERNELS; i++)
		launch(prefill_kernel, us);
	CU(cuStreamSynchronize(stream));
	now = now_ns();
	note(&first_token, now - r->at_ns);
	tokens++;
	r->state = RUNS;
	r->at_ns = now;
	r->left = TOKENS_LEAST + (int)(chance(r) * (TOKENS_MOST - TOKENS_LEAST));
}

static void decode(void)
{
	double now;

	CU(cuGraphLaunch(decode_graph, stream));
	for (int i = 0; i < DECODE_KERNELS; i++)
		launch(decode_kernel, DECODE_US);
	CU(cuStreamSynchronize(stream));
	now = now_ns();
	for (int i = 0; i < requests; i++) {
		struct request *r = &request[i];

		if (r->state != RUNS)
			continue;
		note(&between_tokens, now - r->at_ns);
		tokens++;
		r->at_ns = now;
		if (--r->left == 0)
			end_request(r, now);
	}
}

/* Returns the request that waits longest; NULL: none waits. */
static struct request *next_waiting(double now)
{
	struct request *found = NULL;

	for (int i = 0; i < requests; i++) {
		struct request *r = &request[i];

		if (r->state == PAUSES && r->at_ns <= now)
			r->state = WAITS;
		if (r->state == WAITS && (!found || r->at_ns < found->at_ns))
			found = r;
	}
	return found;
}

static bool any_runs(void)
{
	for (int i = 0; i < requests; i++)
		if (request[i].state == RUNS)
			return true;
	return false;
}

static void serve(double until)
{
	double now;

	while ((now = now_ns()) < until) {
		struct request *waits = next_waiting(now);

		if (waits)
			prefill(waits);
		else if (any_runs())
			decode();
		usleep(HOST_US);
	}
}

static int by_length(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double percentile(struct samples *samples, int percent)
{
	qsort(samples->us, (size_t)samples->count, sizeof *samples->us, by_length);
	return samples->count ? samples->us[(long)samples->count * percent / 100] : 0;
}

int main(int argc, char **argv)
{
	double began, seconds;
	CUmodule module;
	unsigned seed;

	requests = argc > 1 ? atoi(argv[1]) : 0;
	seconds = argc > 2 ? strtod(argv[2], NULL) : 0;
	seed = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
	if (requests < 1 || requests > REQUESTS_MOST || seconds <= 0) {
		fprintf(stderr, "usage: engine REQUESTS SECONDS [SEED]\n");
		return 2;
	}
	measure_open();
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&prefill_kernel, module, "prefill"));
	CU(cuModuleGetFunction(&decode_kernel, module, "decode"));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	make_graph();
	began = now_ns();
	for (int i = 0; i < requests; i++) {
		request[i].random_state = seed * REQUESTS_MOST + (unsigned)i;
		end_request(&request[i], began);
	}
	serve(began + WARM_UP_MS * 1e6);
	tokens = 0;
	first_token.count = between_tokens.count = 0;
	began = now_ns();
	serve(began + seconds * 1e9);
	printf("engine: tokens=%lu elapsed_ms=%.1f", tokens, (now_ns() - began) / 1e6);
	printf(" ttft_us=%.0f tbt_us=%.0f tbt_p99_us=%.0f\n", percentile(&first_token, 50),
	       percentile(&between_tokens, 50), percentile(&between_tokens, 99));
	return 0;
}

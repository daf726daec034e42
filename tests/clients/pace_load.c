/* SPDX-License-Identifier: MIT */
/*
 * Loads a CUDA device in the ways that programs do, and prints how much work was done. Pacing is
 * tested and measured with it. `pace_load --help` lists the ways.
 *
 * Each kernel counts itself in device memory; at the end the count must be that of the launches.
 *
 * work_ms           what the kernels take when nothing holds them up
 * start_ns, end_ns  of CLOCK_MONOTONIC: before the first launch, after the last kernel
 * stop_ns           when launching stopped; what was queued then runs until end_ns
 */
#include "tests/clients/pace_load.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/clients/client.h"
#include "tests/clients/program.h"

struct load_options load_options = {
    .lengths_us = {1000},
    .length_count = 1,
    .seconds = 2,
    .streams = 1,
    .ahead_ms = 20,
};

static CUcontext context;
static CUmodule module;
static uint64_t deadline_ns, stop_ns;

static const char usage[] =
    "Usage: pace_load [OPTION...]\n"
    "Keeps CUDA device 0 busy and prints how much work got through.\n"
    "  --kernel-us N[,N...]  length of a kernel (1000); several: by chance\n"
    "  --seconds N           how long it launches (2)\n"
    "  --launches N          how many instead, of each stream\n"
    "  --asleep              kernels sleep instead of computing: for a device that sleeps as long "
    "as it is told\n"
    "  --loops-per-ms N      of computing kernels, as an unhindered run printed them; else "
    "measured first\n"
    "  --streams N           streams that are given kernels in turns (1)\n"
    "  --legacy [--beside]   the legacy stream instead; beside one that it waits for\n"
    "  --threads N           threads with a per-thread default stream each, instead\n"
    "  --graph N             graphs of so many kernels, instead of kernels\n"
    "  --wait                waits for each launch\n"
    "  --ahead-ms N          work that is queued ahead, of each stream (20)\n"
    "  --burst-ms N --pause-ms N  so much work, then a wait for it and a pause; or --burst-us, "
    "--pause-us\n"
    "  --by-chance           pauses are up to twice as long, by chance\n"
    "  --ranks N             a device each, whose kernels wait for each other after each launch; "
    "threads\n"
    "  --processes           the ranks are processes";

static void parse_lengths(char *list)
{
	unsigned count = 0;

	for (char *item = strtok(list, ","); item; item = strtok(NULL, ",")) {
		if (count == MAX_LENGTHS)
			program_die("--kernel-us: more than %d lengths", MAX_LENGTHS);
		load_options.lengths_us[count++] =
		    (unsigned)program_number("kernel-us", item, 1, 4000000);
	}
	if (!count)
		program_die("--kernel-us: expected a length");
	load_options.length_count = count;
}

static void parse_options(int argc, char **argv)
{
	enum {
		KERNEL = 1,
		SECONDS,
		LAUNCHES,
		LOOPS,
		STREAMS,
		THREADS,
		GRAPH,
		AHEAD,
		BURST,
		PAUSE,
		BURST_US,
		PAUSE_US,
		BY_CHANCE,
		RANKS,
		ASLEEP,
		WAIT,
		PROCESSES,
		LEGACY,
		BESIDE,
		HELP
	};
	static const struct option known[] = {
	    {"kernel-us", required_argument, NULL, KERNEL},
	    {"seconds", required_argument, NULL, SECONDS},
	    {"launches", required_argument, NULL, LAUNCHES},
	    {"loops-per-ms", required_argument, NULL, LOOPS},
	    {"streams", required_argument, NULL, STREAMS},
	    {"threads", required_argument, NULL, THREADS},
	    {"graph", required_argument, NULL, GRAPH},
	    {"ahead-ms", required_argument, NULL, AHEAD},
	    {"burst-ms", required_argument, NULL, BURST},
	    {"pause-ms", required_argument, NULL, PAUSE},
	    {"burst-us", required_argument, NULL, BURST_US},
	    {"pause-us", required_argument, NULL, PAUSE_US},
	    {"by-chance", no_argument, NULL, BY_CHANCE},
	    {"ranks", required_argument, NULL, RANKS},
	    {"asleep", no_argument, NULL, ASLEEP},
	    {"wait", no_argument, NULL, WAIT},
	    {"processes", no_argument, NULL, PROCESSES},
	    {"legacy", no_argument, NULL, LEGACY},
	    {"beside", no_argument, NULL, BESIDE},
	    {"help", no_argument, NULL, HELP},
	    {0},
	};
	static const struct {
		int option;
		unsigned *value, min, max;
	} numbers[] = {
	    {SECONDS, &load_options.seconds, 0, 86400},
	    {STREAMS, &load_options.streams, 1, MAX_QUEUES},
	    {THREADS, &load_options.threads, 1, MAX_QUEUES},
	    {GRAPH, &load_options.nodes, 1, 100000},
	    {AHEAD, &load_options.ahead_ms, 1, 3600000},
	    {BURST, &load_options.burst_ms, 1, 3600000},
	    {PAUSE, &load_options.pause_ms, 1, 3600000},
	    {BURST_US, &load_options.burst_us, 1, 3600000},
	    {PAUSE_US, &load_options.pause_us, 1, 3600000},
	    {RANKS, &load_options.ranks, 2, MAX_RANKS},
	};
	int option, index = 0;

	while ((option = getopt_long(argc, argv, "", known, &index)) != -1) {
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
			if (numbers[i].option == option)
				*numbers[i].value = (unsigned)program_number(
				    known[index].name, optarg, numbers[i].min, numbers[i].max);
		switch (option) {
		case KERNEL:
			parse_lengths(optarg);
			break;
		case LAUNCHES:
			load_options.launches =
			    (unsigned long)program_number("launches", optarg, 1, 1000000000);
			break;
		case LOOPS:
			load_options.loops_per_ms =
			    (double)program_number("loops-per-ms", optarg, 1, 1000000000);
			break;
		case ASLEEP:
			load_options.asleep = true;
			break;
		case WAIT:
			load_options.wait = true;
			break;
		case BY_CHANCE:
			load_options.by_chance = true;
			break;
		case PROCESSES:
			load_options.processes = true;
			break;
		case LEGACY:
			load_options.legacy = true;
			break;
		case BESIDE:
			load_options.beside = true;
			break;
		case HELP:
			puts(usage);
			exit(0);
		case '?':
			exit(2);
		default:
			break;
		}
	}
	if (optind < argc)
		program_die("'%s': expected options only; see --help", argv[optind]);
	if (!load_options.burst_us)
		load_options.burst_us = 1000 * load_options.burst_ms;
	if (!load_options.pause_us)
		load_options.pause_us = 1000 * load_options.pause_ms;
	if (load_options.ranks && !load_options.asleep && load_options.loops_per_ms == 0)
		program_die("--ranks: needs --asleep or --loops-per-ms");
}

static bool is_over(const struct queue *queue)
{
	return load_options.launches ? queue->counts.launches >= load_options.launches
	                             : load_now_ns() >= deadline_ns;
}

/* How long bursts took, from the first launch until the last kernel was done. */
static struct {
	uint64_t began_ns, ns[1 << 16];
	size_t count;
} bursts;

static int by_length(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return one < other ? -1 : one > other;
}

/* Returns the length that one in a hundred exceeds. */
static double percentile_us(void)
{
	size_t at = bursts.count * 99 / 100;

	qsort(bursts.ns, bursts.count, sizeof bursts.ns[0], by_length);
	return bursts.count ? (double)bursts.ns[at] / 1e3 : 0;
}

static void end_burst(struct queue *queues, unsigned count)
{
	unsigned us = load_options.pause_us;

	for (unsigned i = 0; i < count; i++)
		CU(cuStreamSynchronize(queues[i].stream));
	if (!load_options.threads && bursts.count < sizeof bursts.ns / sizeof bursts.ns[0])
		bursts.ns[bursts.count++] = load_now_ns() - bursts.began_ns;
	if (load_options.by_chance)
		us = (unsigned)((double)rand_r(&queues[0].random) / RAND_MAX * 2 * us);
	usleep(us);
	if (!load_options.threads)
		bursts.began_ns = load_now_ns();
}

/* Keeps queues busy by turns until it is over. */
static void keep_busy(struct queue *queues, unsigned count)
{
	double paused_at = 0, work_ms = 0;

	if (!load_options.threads)
		bursts.began_ns = load_now_ns();

	while (!is_over(&queues[0])) {
		work_ms = 0;
		for (unsigned i = 0; i < count; i++) {
			queue_launch(&queues[i]);
			work_ms += queues[i].counts.work_ms;
		}
		if (!load_options.burst_us || work_ms < paused_at + load_options.burst_us / 1e3)
			continue;
		paused_at = work_ms;
		end_burst(queues, count);
	}
	stop_ns = load_now_ns();
}

static struct load_counts close_queues(struct queue *queues, unsigned count)
{
	struct load_counts sum = {0};

	for (unsigned i = 0; i < count; i++) {
		queue_close(&queues[i]);
		sum.launches += queues[i].counts.launches;
		sum.kernels += queues[i].counts.kernels;
		sum.work_ms += queues[i].counts.work_ms;
	}
	return sum;
}

static struct load_counts run_streams(uint64_t *start_ns)
{
	static struct queue queues[MAX_QUEUES];
	CUstream beside;

	if (load_options.beside)
		CU(cuStreamCreate(&beside, CU_STREAM_DEFAULT));
	for (unsigned i = 0; i < load_options.streams; i++)
		queue_open(&queues[i], module, load_options.legacy ? CU_STREAM_LEGACY : NULL, i);
	*start_ns = load_now_ns();
	deadline_ns = *start_ns + load_options.seconds * 1000000000ull;
	keep_busy(queues, load_options.streams);
	return close_queues(queues, load_options.streams);
}

struct thread {
	pthread_t thread;
	unsigned seed;
	struct load_counts counts;
};

static pthread_barrier_t opened;

static void *run_thread(void *argument)
{
	struct thread *self = argument;
	struct queue queue;

	CU(cuCtxSetCurrent(context));
	queue_open(&queue, module, CU_STREAM_PER_THREAD, self->seed);
	pthread_barrier_wait(&opened);
	pthread_barrier_wait(&opened);
	keep_busy(&queue, 1);
	self->counts = close_queues(&queue, 1);
	return NULL;
}

static struct load_counts run_threads(uint64_t *start_ns)
{
	static struct thread threads[MAX_QUEUES];
	struct load_counts sum = {0};

	pthread_barrier_init(&opened, NULL, load_options.threads + 1);
	for (unsigned i = 0; i < load_options.threads; i++) {
		threads[i].seed = i;
		if (pthread_create(&threads[i].thread, NULL, run_thread, &threads[i]) != 0)
			program_die("no thread");
	}
	pthread_barrier_wait(&opened);
	*start_ns = load_now_ns();
	deadline_ns = *start_ns + load_options.seconds * 1000000000ull;
	pthread_barrier_wait(&opened);
	for (unsigned i = 0; i < load_options.threads; i++) {
		pthread_join(threads[i].thread, NULL);
		sum.launches += threads[i].counts.launches;
		sum.kernels += threads[i].counts.kernels;
		sum.work_ms += threads[i].counts.work_ms;
	}
	return sum;
}

int main(int argc, char **argv)
{
	char name[256] = "several";
	struct load_counts counts;
	uint64_t start_ns, end_ns;
	CUdevice device = 0;

	parse_options(argc, argv);
	if (load_options.ranks) {
		counts = ranks_run(&start_ns, &stop_ns, &end_ns);
	} else {
		device = client_open_device(name);
		module = load_module();
		CU(cuCtxGetCurrent(&context));
		if (!load_options.asleep && load_options.loops_per_ms == 0)
			load_options.loops_per_ms = load_calibrate(module);
		counts = load_options.threads ? run_threads(&start_ns) : run_streams(&start_ns);
		end_ns = load_now_ns();
	}
	printf(
	    "pace_load: pid=%d device=\"%s\" loops_per_ms=%.0f launches=%lu kernels=%lu steps=%lu "
	    "elapsed_ms=%.1f work_ms=%.1f start_ns=%llu stop_ns=%llu end_ns=%llu bursts=%zu "
	    "burst_p99_us=%.0f\n",
	    (int)getpid(), name, load_options.loops_per_ms, counts.launches, counts.kernels,
	    counts.steps, (double)(end_ns - start_ns) / 1e6, counts.work_ms,
	    (unsigned long long)start_ns, (unsigned long long)stop_ns, (unsigned long long)end_ns,
	    bursts.count, percentile_us());
	if (!load_options.ranks) {
		CU(cuModuleUnload(module));
		client_close_device(device);
	}
	return 0;
}

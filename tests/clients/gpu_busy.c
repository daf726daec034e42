/* SPDX-License-Identifier: MIT */
/*
 * Keeps CUDA device 0 busy with kernels of a chosen length, and prints how much work was done. It
 * is the other half of every measurement of a share.
 *
 * work_ms is the launches times the length of an undisturbed kernel. So work_ms / elapsed_ms is the
 * share of the device that this program got. busy_ms is the time between events around each kernel:
 * it includes the wait of the launch between them.
 */
#include "tests/clients/client.h"
#include "tests/clients/program.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Launches that are not waited for: as many as last this long, but at least two. */
enum { IN_FLIGHT_US = 20000, MAX_IN_FLIGHT = 64 };

static struct {
	unsigned kernel_us, seconds, blocks, threads, loops;
	bool synchronise;
} options = {.kernel_us = 1000, .seconds = 2, .blocks = 1, .threads = 32};

static CUfunction spin;
static CUstream stream;
static CUdeviceptr sink;

static struct flight {
	CUevent start, stop;
	bool used;
} flights[MAX_IN_FLIGHT];

static void launch(struct flight *flight, unsigned loops)
{
	CU(cuEventRecord(flight->start, stream));
	CLIENT_LAUNCH(spin, options.blocks, 1, options.threads, stream, &sink, &loops);
	CU(cuEventRecord(flight->stop, stream));
	flight->used = true;
}

/* Waits for a launch and returns its milliseconds; none if there was none. */
static double land(struct flight *flight)
{
	float ms = 0;

	if (!flight->used)
		return 0;
	CU(cuEventSynchronize(flight->stop));
	CU(cuEventElapsedTime(&ms, flight->start, flight->stop));
	flight->used = false;
	return ms;
}

static double shortest_of(unsigned launches, unsigned loops)
{
	double shortest = 1e30;

	while (launches--) {
		launch(&flights[0], loops);
		double ms = land(&flights[0]);
		if (shortest > ms)
			shortest = ms;
	}
	return shortest;
}

/* The loops that take kernel_us: doubled until long enough to measure, then in proportion. */
static unsigned calibrate(void)
{
	unsigned loops = 1024;
	double ms;

	while ((ms = shortest_of(3, loops)) < 10 && loops < 1u << 30)
		loops *= 2;
	double wanted = loops * (options.kernel_us / 1e3) / ms;
	return wanted < 1 ? 1 : wanted > 4e9 ? 4000000000u : (unsigned)wanted;
}

static void parse_options(int argc, char **argv)
{
	static const struct option known[] = {
	    {"kernel-us", required_argument, NULL, 'k'},
	    {"seconds", required_argument, NULL, 's'},
	    {"loops", required_argument, NULL, 'l'},
	    {"blocks", required_argument, NULL, 'b'},
	    {"threads", required_argument, NULL, 't'},
	    {"synchronise", no_argument, NULL, 'w'},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'k':
			options.kernel_us = program_number("kernel-us", optarg, 1, 10000000);
			break;
		case 's':
			options.seconds = program_number("seconds", optarg, 0, 86400);
			break;
		case 'l':
			options.loops = program_number("loops", optarg, 1, 4000000000);
			break;
		case 'b':
			options.blocks = program_number("blocks", optarg, 1, 65535);
			break;
		case 't':
			options.threads = program_number("threads", optarg, 1, 1024);
			break;
		case 'w':
			options.synchronise = true;
			break;
		case 'h':
			puts("Usage: gpu_busy [OPTION...]\n"
			     "Keeps CUDA device 0 busy and prints how much work got through.\n"
			     "  --kernel-us N  length of a kernel (1000)\n"
			     "  --seconds N    how long (2); 0 only calibrates\n"
			     "  --loops N      the loops that take that long, as an unhindered run "
			     "printed them;\n"
			     "                 without it they are measured first\n"
			     "  --blocks N     blocks per launch (1)\n"
			     "  --threads N    threads per block (32)\n"
			     "  --synchronise  wait for each kernel before the next launch");
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
	unsigned long launches = 0;
	double busy_ms = 0;

	parse_options(argc, argv);
	CUdevice device = client_open_device(name);
	CUmodule module = client_load_module("busy_kernels.ptx");
	spin = client_function(module, "spin");
	sink = client_alloc(sizeof(unsigned));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < MAX_IN_FLIGHT; i++) {
		CU(cuEventCreate(&flights[i].start, CU_EVENT_DEFAULT));
		CU(cuEventCreate(&flights[i].stop, CU_EVENT_DEFAULT));
	}
	if (!options.loops)
		options.loops = calibrate();

	unsigned in_flight = IN_FLIGHT_US / options.kernel_us;
	in_flight = in_flight < 2 ? 2 : in_flight > MAX_IN_FLIGHT ? MAX_IN_FLIGHT : in_flight;
	double start_ms = program_now_ms();
	double end_ms = start_ms + options.seconds * 1e3;
	while (program_now_ms() < end_ms) {
		struct flight *flight = &flights[launches++ % in_flight];
		busy_ms += land(flight);
		launch(flight, options.loops);
		if (options.synchronise)
			CU(cuStreamSynchronize(stream));
	}
	for (int i = 0; i < MAX_IN_FLIGHT; i++)
		busy_ms += land(&flights[i]);
	double elapsed_ms = program_now_ms() - start_ms;

	printf("gpu_busy: device=\"%s\" kernel_us=%u loops=%u launches=%lu elapsed_ms=%.1f "
	       "busy_ms=%.1f work_ms=%.1f\n",
	       name, options.kernel_us, options.loops, launches, elapsed_ms, busy_ms,
	       launches * (options.kernel_us / 1e3));
	for (int i = 0; i < MAX_IN_FLIGHT; i++) {
		CU(cuEventDestroy(flights[i].start));
		CU(cuEventDestroy(flights[i].stop));
	}
	CU(cuStreamDestroy(stream));
	client_free(&sink, sizeof(unsigned));
	CU(cuModuleUnload(module));
	client_close_device(device);
	return 0;
}

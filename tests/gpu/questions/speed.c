/* SPDX-License-Identifier: MIT */
/* How fast device memory, spilled memory and copies between them are. */
#include "tests/gpu/questions/question.h"

#include "tests/clients/program.h"

#include <stdio.h>

/* GB/s of the fastest of three launches that read so many bytes. */
static double rate(const char *kernel, unsigned blocks, void **arguments, double bytes)
{
	CUevent start = NULL, stop = NULL;
	double shortest = 1e9;

	ATTEMPT(cuEventCreate(&start, CU_EVENT_DEFAULT));
	ATTEMPT(cuEventCreate(&stop, CU_EVENT_DEFAULT));
	for (int i = 0; i < 3; i++) {
		float ms = 0;

		ATTEMPT(cuEventRecord(start, stream));
		launch(KERNELS, kernel, blocks, 512, stream, arguments);
		ATTEMPT(cuEventRecord(stop, stream));
		ATTEMPT(cuEventSynchronize(stop));
		ATTEMPT(cuEventElapsedTime(&ms, start, stop));
		if ((double)ms < shortest)
			shortest = (double)ms;
	}
	return shortest > 0 ? bytes / shortest / 1e6 : 0;
}

static double reread(CUdeviceptr from, size_t bytes, unsigned times)
{
	CUdeviceptr sum = 0;
	unsigned count = (unsigned)(bytes / 16);

	ATTEMPT(cuMemAlloc(&sum, sizeof(unsigned)));
	return rate("reread", short_form ? 8 : 264, (void *[]){&from, &count, &times, &sum},
	            (double)bytes * times);
}

static double read_by_all(CUdeviceptr from, size_t bytes)
{
	unsigned blocks = short_form ? 4 : 132;
	CUdeviceptr sum = 0;
	unsigned count = (unsigned)(bytes / 16);

	ATTEMPT(cuMemAlloc(&sum, sizeof(unsigned)));
	return rate("read_by_all", blocks, (void *[]){&from, &count, &sum}, (double)bytes * blocks);
}

static void ask_cache(const struct question *q)
{
	size_t all = 4 * small_chunk, part = short_form ? small_chunk / 4 : small_chunk;
	unsigned times = short_form ? 2 : 20;
	struct range on_device, on_host;

	range_make(&on_device, "dddd", small_chunk);
	range_make(&on_host, "hhhh", small_chunk);
	ATTEMPT(cuMemsetD8(on_device.base, 1, all));
	ATTEMPT(cuMemsetD8(on_host.base, 1, all));
	ATTEMPT(cuCtxSynchronize());
	if (short_form)
		all = small_chunk / 2;
	double device_many = reread(on_device.base, all, times);
	double host_once = reread(on_host.base, all, 1);
	double host_many = reread(on_host.base, all, times);
	double device_all = read_by_all(on_device.base, part);
	double host_all = read_by_all(on_host.base, part);
	if (!not_asked(q))
		answer(q->name, host_many > (short_form ? 1.5 : 3) * host_once ? "yes" : "no",
		       "GB/s of %zu KiB read %u times: device %.1f, spilled %.1f, once %.1f; %zu "
		       "KiB read "
		       "by every block: device %.1f, spilled %.1f",
		       all >> 10, times, device_many, host_many, host_once, part >> 10, device_all,
		       host_all);
}

static double copy_all(CUdeviceptr to, CUdeviceptr from, size_t bytes, size_t piece, size_t shift)
{
	double start = program_now_ms();

	for (size_t at = 0; at < bytes; at += piece)
		ATTEMPT(cuMemcpyAsync(to + at, from + (at + shift) % bytes, piece, stream));
	ATTEMPT(cuStreamSynchronize(stream));
	return (double)bytes / (program_now_ms() - start) / 1e6;
}

static void ask_copies(const struct question *q)
{
	size_t chunk = (size_t)(short_form ? 4 : 32) << 20, bytes = 8 * chunk;
	struct range on_device, on_host;
	char text[512] = "";
	size_t used = 0;
	double slowest = 1e9, fastest = 0;

	range_make(&on_device, "dddddddd", chunk);
	range_make(&on_host, "hhhhhhhh", chunk);
	for (size_t piece = small_chunk; piece <= chunk && !attempt_failed(NULL); piece *= 4) {
		double down = copy_all(on_host.base, on_device.base, bytes, piece, 0);
		double up = copy_all(on_device.base, on_host.base, bytes, piece, 0);
		double across = copy_all(on_host.base, on_host.base, bytes, piece, chunk);

		used +=
		    (size_t)snprintf(text + used, sizeof(text) - used,
		                     "%sby %zu MiB: to the host %.1f, back %.1f, within it %.1f",
		                     used ? "; " : "", piece >> 20, down, up, across);
		slowest = down < slowest ? down : slowest;
		fastest = down > fastest ? down : fastest;
	}
	if (!not_asked(q))
		answer(q->name, slowest > fastest * 0.8 ? "small ones suffice" : "large ones pay",
		       "GB/s %s", text);
}

/* Microseconds of taking a mapped chunk away and mapping another one in its place, on average. */
static double remap_us(char backing, size_t size)
{
	enum { ROUNDS = 20 };
	const char kind[2] = {backing};
	CUmemAccessDesc access = range_access();
	struct range here, other;
	double start;

	range_make(&here, kind, size);
	range_make(&other, kind, size);
	ATTEMPT(cuMemUnmap(other.base, size));
	start = program_now_ms();
	for (int i = 0; i < ROUNDS; i++) {
		ATTEMPT(cuMemUnmap(here.base, size));
		ATTEMPT(cuMemMap(here.base, size, 0, (i & 1 ? here : other).handles[0], 0));
		ATTEMPT(cuMemSetAccess(here.base, size, &access, 1));
	}
	return (program_now_ms() - start) * 1e3 / ROUNDS;
}

static void ask_remap(const struct question *q)
{
	char text[256] = "";
	size_t used = 0;
	double small = 0;

	for (size_t size = small_chunk; size <= 16 * small_chunk && !attempt_failed(NULL);
	     size *= 4) {
		double on_device = remap_us('d', size), on_host = remap_us('h', size);

		if (size == small_chunk)
			small = on_device > on_host ? on_device : on_host;
		used += (size_t)snprintf(text + used, sizeof(text) - used,
		                         "%s%zu MiB: device %.1f, host %.1f", used ? "; " : "",
		                         size >> 20, on_device, on_host);
	}
	if (!not_asked(q))
		answer(q->name, small < 100 ? "cheap" : "dear", "us to unmap, map and open %s",
		       text);
}

const struct question speed_questions[] = {
    {.name = "remap_costs",
     .risk = "-",
     .asks = "What does it cost to map another chunk at an address, by its size?",
     .counted_on = "cheap",
     .then = "memory moves by chunks of 2 MiB and more, each mapped on its own while the gate is "
             "closed",
     .otherwise = "make chunks larger, or map fewer of them while the gate is closed",
     .ask = ask_remap},
    {.name = "copy_rates",
     .risk = "7",
     .asks = "How fast are copies between device and host, by the size of a piece?",
     .counted_on = "small ones suffice",
     .then = "memory moves by chunks of 2 MiB and more, one copy each",
     .otherwise = "copy neighbouring chunks by one call, or make chunks larger",
     .ask = ask_copies},
    {.name = "l2_caches_spilled",
     .risk = "7",
     .asks = "Is spilled memory that is read again read from the device's cache?",
     .counted_on = "yes",
     .then = "README says that spilled memory is used at the speed of the link",
     .otherwise = "each reading crosses the bus: say so in README, and bring what kernels read to "
                  "the device before anything else",
     .ask = ask_cache},
    {0},
};

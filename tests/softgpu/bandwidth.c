/* SPDX-License-Identifier: MIT */
/*
 * SOFTGPU_HOST_BANDWIDTH: a device's reads and writes in host memory take their time on a link of
 * so many bytes per second. The time is slept.
 *
 * Copies and fills know their bytes. A kernel's accesses to virtual memory on the host are plain
 * loads and stores, so they are counted by the page. Before the kernel its device's view of that
 * memory is dropped from the page tables. A page that is there afterwards was touched, once or
 * often. The system may map up to 64 KiB around a touch. Other host memory counts by the access of
 * a warp.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/softgpu/machine.h"
#include "tests/softgpu/memory.h"

#define HOST_PAGE 4096ULL
/* A warp's access touches at most so much: 32 sectors of 32 bytes. */
#define ACCESS_MOST      1024
#define SHORTEST_REST_NS 100000

bool is_on_host(uint64_t address)
{
	if (window_holds(address)) {
		const struct physical *physical = window_page(address)->physical;
		return physical && physical->device < 0;
	}
	struct range *range = range_find(address);
	return !range || range->kind != RANGE_MANAGED || !managed_is_on_device(range, address);
}

uint64_t host_link_ns(uint64_t bytes)
{
	uint64_t bandwidth = config()->host_bandwidth;
	return bandwidth ? (uint64_t)((double)bytes * 1e9 / (double)bandwidth) : 0;
}

uint64_t host_link_piece(uint64_t address, uint64_t size)
{
	uint64_t whole = GRANULARITY - address % GRANULARITY;
	return config()->host_bandwidth && size > whole ? whole : size;
}

void host_link_use(struct host_link *link, uint64_t bytes)
{
	if (!config()->host_bandwidth)
		return;
	link->bytes += bytes;
	uint64_t end = link->began_ns + host_link_ns(link->bytes);
	/* Short rests add up to more than was asked for; they are left for later. */
	if (end < now_ns() + SHORTEST_REST_NS)
		return;
	struct timespec until = {.tv_sec = (time_t)(end / 1000000000),
	                         .tv_nsec = (long)(end % 1000000000)};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
		continue;
}

void host_link_access(struct device *device, uint64_t bytes)
{
	if (config()->host_bandwidth)
		__atomic_fetch_add(&device->host_traffic, bytes < ACCESS_MOST ? bytes : ACCESS_MOST,
		                   __ATOMIC_RELAXED);
}

static void forget_pages(uint64_t address)
{
	madvise((void *)address, GRANULARITY, MADV_DONTNEED);
}

/* Bytes of the page of the window that are in the page tables now. */
static uint64_t touched_bytes(int pagemap, uint64_t address)
{
	uint64_t entries[GRANULARITY / HOST_PAGE], bytes = 0;
	ssize_t got = pread(pagemap, entries, sizeof(entries),
	                    (off_t)(address / HOST_PAGE * sizeof(entries[0])));
	for (size_t i = 0; got > 0 && i < (size_t)got / sizeof(entries[0]); i++)
		if (entries[i] >> 62) /* present, or swapped out */
			bytes += HOST_PAGE;
	return bytes;
}

/* The pages of host memory that the device may touch; `pagemap` < 0 forgets, else counts them. */
static uint64_t walk(const struct device *device, int pagemap)
{
	uint64_t bytes = 0;
	pthread_rwlock_rdlock(&memory_lock);
	const struct range *range;
	for (size_t i = 0; (range = range_at(i)); i++) {
		if (range->kind != RANGE_MAPPING || range->device >= 0)
			continue;
		for (uint64_t at = range->base; at < range->base + range->size; at += GRANULARITY) {
			uint64_t view = at + (uint64_t)device->alias_delta;
			if (!(window_page(at)->readable >> device->index & 1))
				continue;
			if (pagemap < 0)
				forget_pages(view);
			else
				bytes += touched_bytes(pagemap, view);
		}
	}
	pthread_rwlock_unlock(&memory_lock);
	return bytes;
}

void host_traffic_begin(struct device *device)
{
	if (!config()->host_bandwidth)
		return;
	__atomic_store_n(&device->host_traffic, 0, __ATOMIC_RELAXED);
	walk(device, -1);
}

uint64_t host_traffic_end(struct device *device)
{
	if (!config()->host_bandwidth)
		return 0;
	uint64_t bytes = __atomic_load_n(&device->host_traffic, __ATOMIC_RELAXED);
	if (config()->traits.uncached_host)
		return bytes; /* the kernel's accesses were counted one by one */
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap >= 0) {
		bytes += walk(device, pagemap);
		close(pagemap);
	}
	return bytes;
}

/* SPDX-License-Identifier: MIT */
/*
 * The window: the addresses of all device memory of this process.
 *
 * The application finds nothing there (PROT_NONE): touching device memory from the host faults, as
 * on hardware. Each device has its own view, the same range of bytes mapped elsewhere at a fixed
 * distance, with the rights that this device has. Kernels and copies use the views.
 *
 * All mapping goes by plain system calls: sanitizers would shadow the whole window otherwise.
 */
#include "tests/softgpu/memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WINDOW_SIZE (128ULL << 30)
#define PAGES       (WINDOW_SIZE / GRANULARITY)

pthread_rwlock_t memory_lock = PTHREAD_RWLOCK_INITIALIZER;

static uint64_t base;
static struct page pages[PAGES];
static size_t next_page; /* where the search for free addresses goes on: reuse comes late */

static void *map(uint64_t address, uint64_t size, int protection, int flags, int file,
                 uint64_t offset)
{
	return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}

/* An empty stretch of addresses on a page boundary, which no forked child inherits. */
static uint64_t reserve_addresses(void)
{
	void *start = map(0, WINDOW_SIZE + GRANULARITY, PROT_NONE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (start == MAP_FAILED)
		return 0;
	madvise(start, WINDOW_SIZE + GRANULARITY, MADV_DONTFORK);
	return ((uint64_t)start + GRANULARITY - 1) & ~(GRANULARITY - 1);
}

bool window_open(void)
{
	base = reserve_addresses();
	return base != 0;
}

bool window_view(struct device *device)
{
	if (device->alias_delta == 0) {
		uint64_t view = reserve_addresses();
		if (!view)
			return false;
		device->alias_delta = (ptrdiff_t)(view - base);
	}
	return true;
}

bool window_holds(uint64_t address)
{
	return address - base < WINDOW_SIZE;
}

uint64_t window_base(void)
{
	return base;
}

uint64_t window_size(void)
{
	return WINDOW_SIZE;
}

struct page *window_page(uint64_t address)
{
	return &pages[(address - base) / GRANULARITY];
}

/* The first page that makes [first, first + count) impossible to reserve, or PAGES if none does. */
static size_t first_taken(size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++)
		if (pages[i].reserved)
			return i;
	return PAGES;
}

static uint64_t take(size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++)
		pages[i].reserved = true;
	return base + first * GRANULARITY;
}

static uint64_t search(size_t from, size_t to, size_t count, uint64_t alignment)
{
	for (size_t first = from; first + count <= to;) {
		uint64_t address = base + first * GRANULARITY;
		uint64_t aligned = (address + alignment - 1) & ~(alignment - 1);
		first += (aligned - address) / GRANULARITY;
		if (first + count > to)
			break;
		size_t taken = first_taken(first, count);
		if (taken == PAGES) {
			next_page = first + count + 1; /* what runs over its end meets nothing */
			return take(first, count);
		}
		first = taken + 1;
	}
	return 0;
}

uint64_t window_reserve(uint64_t size, uint64_t alignment, uint64_t wish)
{
	size_t count = size / GRANULARITY;
	if (count == 0 || count > PAGES)
		return 0;
	if (alignment < GRANULARITY)
		alignment = GRANULARITY;
	if (wish && window_holds(wish) && (wish & (alignment - 1)) == 0) {
		size_t first = (wish - base) / GRANULARITY;
		if (first + count <= PAGES && first_taken(first, count) == PAGES)
			return take(first, count);
	}
	uint64_t found = search(next_page, PAGES, count, alignment);
	return found ? found : search(0, PAGES, count, alignment);
}

void window_unreserve(uint64_t address, uint64_t size)
{
	for (struct page *page = window_page(address); size; size -= GRANULARITY)
		(page++)->reserved = false;
}

void window_map(uint64_t address, struct physical *physical)
{
	struct page *page = window_page(address);
	for (uint32_t i = 0; i < physical->size / GRANULARITY; i++)
		page[i] = (struct page){.physical = physical, .index = i, .reserved = true};
	physical->mappings++;
}

static void hide(uint64_t address, uint64_t size, ptrdiff_t view)
{
	map(address + (uint64_t)view, size, PROT_NONE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void window_unmap(uint64_t address, uint64_t size)
{
	for (int i = 0; i < device_count; i++)
		if (devices[i].alias_delta)
			hide(address, size, devices[i].alias_delta);
	struct page *page = window_page(address);
	for (uint64_t done = 0; done < size; done += GRANULARITY, page++) {
		if (page->host_readable)
			hide(address + done, GRANULARITY, 0);
		if (page->index == 0)
			page->physical->mappings--;
		*page = (struct page){.reserved = true};
	}
}

/* Maps the bytes into one view of the window, with these rights. */
static bool show(uint64_t address, uint64_t size, ptrdiff_t view, bool read, bool write)
{
	const struct page *page = window_page(address);
	size_t count = size / GRANULARITY;
	for (size_t i = 0, run; i < count; i += run) {
		const struct physical *physical = page[i].physical;
		for (run = 1; i + run < count && page[i + run].physical == physical &&
		              page[i + run].index == page[i].index + run;
		     run++)
			continue;
		uint64_t start = address + i * GRANULARITY;
		if (!read)
			hide(start, run * GRANULARITY, view);
		else if (map(start + (uint64_t)view, run * GRANULARITY,
		             write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED,
		             physical->file,
		             physical->offset + page[i].index * GRANULARITY) == MAP_FAILED)
			return false;
	}
	return true;
}

bool window_allow(uint64_t address, uint64_t size, const struct device *device, bool read,
                  bool write)
{
	uint8_t bit = (uint8_t)(1U << device->index);
	if (!show(address, size, device->alias_delta, read, write))
		return false;
	struct page *page = window_page(address);
	for (const struct page *end = page + size / GRANULARITY; page < end; page++) {
		page->readable = (uint8_t)(read ? page->readable | bit : page->readable & ~bit);
		page->writable = (uint8_t)(write ? page->writable | bit : page->writable & ~bit);
	}
	return true;
}

bool window_allow_host(uint64_t address, uint64_t size, bool read, bool write)
{
	if (!show(address, size, 0, read, write))
		return false;
	struct page *page = window_page(address);
	for (const struct page *end = page + size / GRANULARITY; page < end; page++)
		page->host_readable = read;
	return true;
}

void *window_bytes(uint64_t address, bool write, uint64_t *run)
{
	const struct page *page = window_page(address);
	unsigned int able = write ? page->writable : page->readable;
	if (!able)
		return NULL;
	const struct device *device = &devices[__builtin_ctz(able)];
	uint64_t offset = (address - base) % GRANULARITY;
	uint64_t length = GRANULARITY - offset;
	const struct page *end = pages + PAGES;
	for (page++; page < end && ((write ? page->writable : page->readable) >> device->index & 1);
	     page++)
		length += GRANULARITY;
	*run = length;
	return (void *)(address + (uint64_t)device->alias_delta);
}

/* SPDX-License-Identifier: MIT */
/*
 * Images of device code for tests: the parts of a fat binary, and images with no readable byte
 * behind them.
 */
#ifndef SPILLWAY_TEST_IMAGES_H
#define SPILLWAY_TEST_IMAGES_H

#include <check.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fat_header {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; /* of what follows */
};

/* Before each piece. */
struct fat_entry {
	uint16_t kind, version;
	uint32_t header_size;
	uint64_t size;
	uint32_t packed_size, more[11];
};

enum { FAT_PTX = 1, FAT_CUBIN = 2 };

static inline struct fat_header fat_header(size_t fat_size)
{
	return (struct fat_header){.magic = 0xba55ed50U,
	                           .version = 1,
	                           .header_size = sizeof(struct fat_header),
	                           .size = fat_size - sizeof(struct fat_header)};
}

static inline struct fat_entry fat_entry(uint16_t kind, size_t size)
{
	return (struct fat_entry){
	    .kind = kind, .version = 1, .header_size = sizeof(struct fat_entry), .size = size};
}

/* The image at the very end of a page: one byte more faults. */
static inline void *at_the_edge(const void *image, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page;
	char *room = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(room, MAP_FAILED);
	ck_assert_int_eq(mprotect(room + pages * page, page, PROT_NONE), 0);
	return memcpy(room + pages * page - size, image, size);
}

#endif

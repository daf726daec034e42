/* SPDX-License-Identifier: MIT */
/* The model: the memory that is alive in this process, its place, and its expected contents. */
#ifndef CHAOS_BLOCKS_H
#define CHAOS_BLOCKS_H

#include "tests/chaos/worker.h"

enum kind {
	KIND_NONE,
	KIND_PLAIN,
	KIND_PITCH,
	KIND_MANAGED,
	KIND_POOL,     /* in stream order */
	KIND_VIRTUAL,  /* physical memory mapped at reserved addresses */
	KIND_OPENED,   /* another process's, by an IPC handle */
	KIND_IMPORTED, /* another process's, by a descriptor */
};

struct block {
	enum kind kind;
	bool is_given; /* others look at it: it stays as it is */
	uint64_t number;
	CUdeviceptr at;
	CUdeviceptr alias;                   /* KIND_VIRTUAL: mapped there, too; 0: nowhere */
	size_t size;                         /* bytes that have the pattern, a multiple of 4 */
	size_t reserved;                     /* KIND_VIRTUAL, KIND_IMPORTED: of addresses */
	CUmemGenericAllocationHandle handle; /* likewise, 0: released as soon as it was mapped */
	CUstream stream; /* where its last work is; what is done elsewhere waits for that */
	struct pattern pattern;
};

enum { BLOCKS = 48 };

/* One that is free; NULL: there are enough, or enough bytes. It gets a number of its own. */
struct block *block_new(enum kind kind, size_t size);
/*
 * Any one that is alive, of these kinds (bits), and not given if it is to be written; NULL: none.
 */
struct block *block_any(struct dice *dice, unsigned int kinds, bool to_write);
#define KINDS_ALL  0xffu
#define KIND(kind) (1u << (kind))
struct block *block_numbered(uint64_t number);
int block_count(void);

/* Writes its pattern by any of the ways there are; its memory is new. */
void block_fill(struct block *block, struct dice *dice);
/* Has `stream` wait for the block's last work and takes its place. */
void block_on(struct block *block, CUstream stream);
/* Queues a kernel that adds to each word. */
void block_add(struct block *block, uint32_t term, CUstream stream);
void block_launch(CUfunction function, CUdeviceptr at, size_t size, struct pattern pattern,
                  CUstream stream);
/* Compares each byte. */
void block_verify(struct block *block);
/* Gives its memory back, as its kind is given back. */
void block_free(struct block *block);
/* Forgets it: its memory is gone with its context. */
void block_forget(struct block *block);
size_t any_size(struct dice *dice);

#endif

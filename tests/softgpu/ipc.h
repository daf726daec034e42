/* SPDX-License-Identifier: MIT */
/*
 * The messages that travel between processes. They run the same driver, so these are plain
 * structures.
 */
#ifndef SOFTGPU_IPC_H
#define SOFTGPU_IPC_H

#include "tests/softgpu/memory.h"

#define IPC_MEMORY 0x4d475053U /* "SPGM" */
#define IPC_EVENT  0x45475053U
#define IPC_POOL   0x50475053U

/* A piece of some physical memory. */
struct ipc_memory {
	uint32_t magic;
	int32_t pid, file;    /* the file with the bytes, as a descriptor of that process */
	int16_t device;       /* of the machine */
	uint16_t index;       /* of the name in the machine's books */
	uint64_t generation;  /* and its other half */
	uint64_t inode;       /* of the file, as descriptors and process ids are used again */
	uint64_t file_offset; /* of the physical memory in the file */
	uint64_t physical_size;
	uint64_t offset, size; /* of the piece in it */
};

/* devices[] of that device of the machine; -1 when this process does not see it. */
int device_of_machine(int machine_index);

#endif

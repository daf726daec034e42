/* SPDX-License-Identifier: MIT */
/* A copy or a fill. */
#ifndef SOFTGPU_COPY_H
#define SOFTGPU_COPY_H

#include "tests/softgpu/driver.h"

enum side_kind {
	SIDE_DEVICE,
	SIDE_PINNED,
	SIDE_MANAGED,
	SIDE_PAGEABLE,
};

struct copy_side {
	uint64_t address;
	uint64_t pitch, slice; /* bytes from one row, one plane to the next */
	uint64_t element;      /* bytes of an element of an array; 0: the side is none */
	enum { MEANT_EITHER, MEANT_HOST, MEANT_DEVICE } meant;
	enum side_kind kind; /* set by classify() */
};

struct copy_shape {
	uint64_t width, height, depth; /* bytes, rows, planes */
};

/* Finds out what the bytes are; INVALID_VALUE when they cross the end of what they start in. */
CUresult classify(struct copy_side *side, uint64_t bytes);
/* Where the bytes are now, and how many in one piece; see window_bytes(). */
void *side_bytes(uint64_t address, bool write, uint64_t *run);
/*
 * Returns whether this driver refuses that form over the borders between memory of a device and of
 * the host in [address, address + size).
 */
bool is_refused_as_mixed(uint64_t address, uint64_t size, enum copy_form form);
/*
 * Returns whether this driver leaves such a copy to the CPU, for good where it is a node of a
 * graph.
 */
bool is_cpu_copy(const struct copy_side *to, const struct copy_side *from);
/* Checks a copy and classifies its sides. */
CUresult copy_check(struct copy_side *to, struct copy_side *from, const struct copy_shape *shape);

enum copy_timing {
	COPY_ASYNC,    /* only pageable memory, or none of a device, can make the call wait */
	COPY_WAIT,     /* until it is done, as the plain forms do */
	COPY_READ_NOW, /* until a source on the host is read */
	COPY_IN_ORDER, /* between memory of the host; else what is pageable stays as it is */
};

/* copy_order.c: the devices a copy on the legacy stream is between; -1 and -1 where it is not. */
struct copy_devices {
	int to, from;
};

struct copy_devices copy_devices(const struct stream *stream, const struct copy_side *to,
                                 const struct copy_side *from);
/* Makes the copy wait for both devices' earlier work, and, once it is the last work queued to its
 * stream, their later work for the copy. */
CUresult copy_order_after(struct work *work, const struct stream *stream, struct copy_devices both);
CUresult copy_order_before(struct stream *stream, struct copy_devices both);

/* Checks and queues a copy. */
CUresult copy_submit(struct stream *stream, struct copy_side to, struct copy_side from,
                     struct copy_shape shape, enum copy_timing timing);

#endif

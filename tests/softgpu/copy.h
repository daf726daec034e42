/* What a copy or fill is made of. */
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
 * Checks and queues a copy. With `wait` it returns when the copy is done, as the plain forms do;
 * without, only pageable memory can make it wait.
 */
CUresult copy_submit(struct stream *stream, struct copy_side to, struct copy_side from,
                     struct copy_shape shape, bool wait);

#endif

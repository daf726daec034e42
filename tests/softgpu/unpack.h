/* SPDX-License-Identifier: MIT */
/*
 * Unpacking of code that nvcc compresses. Both answer false where the input is broken; thread-safe.
 */
#ifndef SOFTGPU_UNPACK_H
#define SOFTGPU_UNPACK_H

#include <stdbool.h>
#include <stddef.h>

/* One LZ4 block, which must yield exactly out_size bytes. */
bool unpack_lz4(const void *in, size_t in_size, void *out, size_t out_size);

/* Returns whether the machine has libzstd, which the next call needs. */
bool can_unpack_zstd(void);
/* One Zstandard frame, which must yield exactly out_size bytes. */
bool unpack_zstd(const void *in, size_t in_size, void *out, size_t out_size);

#endif

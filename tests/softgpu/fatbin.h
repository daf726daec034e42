/* SPDX-License-Identifier: MIT */
/* Images of code as programs hand them over: PTX text, fat binaries, machine code. */
#ifndef SOFTGPU_FATBIN_H
#define SOFTGPU_FATBIN_H

#include "tests/softgpu/driver.h"

/*
 * The PTX of an image, as text of its own to free(). An image is PTX text, a fat binary, or a fat
 * binary's wrapper. INVALID_IMAGE: it is none, or is broken; NO_BINARY_FOR_GPU: nothing in it runs
 * here; NOT_SUPPORTED: it is packed in a way that cannot be unpacked. Thread-safe.
 */
CUresult image_text(const void *image, char **text);

#endif

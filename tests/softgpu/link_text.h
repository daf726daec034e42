/* SPDX-License-Identifier: MIT */
/* Several PTX texts put together as one, as a linker would. */
#ifndef SOFTGPU_LINK_TEXT_H
#define SOFTGPU_LINK_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Names that a text keeps to itself stay its own; what one declares .extern another defines. The
 * result is NUL-terminated and belongs to the caller. False: it cannot be done, and log (of
 * log_size bytes, always terminated) says why. A kernel that does not bound its registers gets that
 * bound; 0: none.
 */
bool link_texts(const char *const *texts, size_t count, unsigned int max_registers, char **linked,
                char *log, size_t log_size);

/*
 * device_runtime.c: the PTX that stands in for the machine code of that library, if it is NVIDIA's
 * libcudadevrt.a; else NULL.
 */
const char *device_runtime_text(const void *library, size_t size);

#endif

/* SPDX-License-Identifier: MIT */
/* printf and assert of device code. */
#ifndef SOFTGPU_PTX_PRINT_H
#define SOFTGPU_PTX_PRINT_H

#include "machine.h"

void print_formatted(struct warp *w, const struct insn *in, uint32_t mask);
void print_assertion(struct warp *w, const struct insn *in, uint32_t lane, char *text, size_t size);

#endif

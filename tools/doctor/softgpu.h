/* SPDX-License-Identifier: MIT */
/*
 * The environment of a program on the software GPU: where frameworks find a compiler for PTX, and
 * which of their ways the software GPU goes. A variable or flag that the user has set stays.
 */
#ifndef SPILLWAY_SOFTGPU_H
#define SPILLWAY_SOFTGPU_H

#include <stddef.h>

/*
 * Sets variables in our environment for the software GPU in FOLDER, where the user has not set
 * them. Writes "NAME=VALUE, ..." of those that it set, or "" where it set none.
 */
void softgpu_be_found(const char *folder, char *set, size_t size);
/* Says what `spillway run --softgpu` would set in our environment. */
void softgpu_report(const char *folder);

#endif

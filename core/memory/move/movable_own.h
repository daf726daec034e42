/* SPDX-License-Identifier: MIT */
/* The program's own physical memory, as a kind of memory that moves. */
#ifndef SPILLWAY_MOVABLE_OWN_H
#define SPILLWAY_MOVABLE_OWN_H

#include "core/memory/move/movable.h"

extern const struct movable_kind movable_own;

#endif

/* SPDX-License-Identifier: MIT */
/* Chunks of arenas, as a kind of memory that moves. */
#ifndef SPILLWAY_MOVABLE_CHUNKS_H
#define SPILLWAY_MOVABLE_CHUNKS_H

#include "core/memory/move/movable.h"

extern const struct movable_kind movable_chunks;

#endif

/* SPDX-License-Identifier: MIT */
/* The reason why memory of a job is on the host just now, in words for its user. */
#ifndef SPILLWAY_ON_HOST_H
#define SPILLWAY_ON_HOST_H

#include <stddef.h>

#include "core/state/segment.h"

enum { ON_HOST_TEXT = 320 };

/*
 * Writes for example "its limit of 20.0 GiB is used up" of one GPU of a job that lives. Returns
 * buf; NULL: no memory is on the host.
 */
const char *on_host_text(const struct segment_view *view, int gpu, char buf[ON_HOST_TEXT]);

#endif

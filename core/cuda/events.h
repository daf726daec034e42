/* SPDX-License-Identifier: MIT */
/*
 * The shim's own events: one pool of them, which makes a recording mostly free of allocations.
 * Events belong to a context and are made without timing. Thread-safe.
 */
#ifndef SPILLWAY_EVENTS_H
#define SPILLWAY_EVENTS_H

#include "core/cuda/driver.h"

/* Returns one of the context, which is current; NULL: the driver makes none. */
CUevent events_take(CUcontext context);
/* Gives one back that is waited for no more; NULL is fine. Its context may be any. */
void events_give(CUcontext context, CUevent event);
/* Forgets the events of a context that is gone, and its events with it. */
void events_forget_context(CUcontext context);

#endif

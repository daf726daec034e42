/*
 * Peers: letting other devices reach a device's memory (arena/reach.h says which do).
 *
 * What the driver allocates is opened to a peer by cuCtxEnablePeerAccess or by its pool's rights; memory that was
 * mapped on the host must be opened by us. A right once given stays: host memory does no harm there. Thread-safe.
 */
#ifndef SPILLWAY_PEER_H
#define SPILLWAY_PEER_H

#include "core/budget/device.h"

/* `reader` may reach what `owner` allocates from now on, and what it has spilled already. */
void peer_reaches(struct device *owner, struct device *reader);

#endif

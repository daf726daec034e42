/*
 * Mixed allocations: partly on the device, partly on the host. Kernels do not mind; whether the
 * driver copies over both kinds at once is found by trying it. Where it does not, or `mixed =
 * whole` says so, each allocation stays in one place and moves as a whole. Thread-safe.
 *
 * It is tried once, by reading over such a border. Splitting the program's copies in the wrapper
 * was not built: a captured copy would have to be split where memory lies when the graph is
 * replayed, and copies in two and three dimensions, in batches and between devices each have their
 * own rules.
 */
#ifndef SPILLWAY_MIXED_H
#define SPILLWAY_MIXED_H

#include <stdbool.h>

#include "core/budget/device.h"
#include "core/budget/terms.h"

/* Returns whether an allocation may be mixed, as far as is known. */
bool mixed_is_possible(struct device *device, const struct terms *terms);
/*
 * Tries it, if that is not known yet, by reading 1 MiB to either side of an address where memory of
 * the device and of the host meet. A context of the device is current. While a capture is active
 * nothing is tried.
 */
void mixed_try(struct device *device, const struct terms *terms, CUdeviceptr border);
/*
 * Tries it where no memory meets yet: maps a chunk of the device's arena once more, and memory of
 * the host behind it. Only the mover calls it.
 */
void mixed_find_out(struct device *device, const struct terms *terms);
/* Returns whether that is still to be found out. */
bool mixed_is_unknown(struct device *device, const struct terms *terms);

#endif

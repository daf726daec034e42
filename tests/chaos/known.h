/*
 * Faults that are known and not mended yet, and how the chaos goes around each. A switch goes when its fault does.
 */
#ifndef CHAOS_KNOWN_H
#define CHAOS_KNOWN_H

/* A limit that moves is sampled and told, and more than it is no failure yet. */
#define LOWERED_LIMIT_IS_EARLY 1

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Lists a directory that other users may fill. All of ours that are listed are listed by this.
 *
 * A listing costs as much as there are names. So a thread that lists again and again asks
 * listing_is_due() before. In a directory of more than LISTING_SMALL names it makes the next look
 * wait for LISTING_DUTY times as long as the last one took, times the number of readers in this
 * process. A process reads no more than LISTING_A_SECOND names a second. For example, 200,000 names
 * that take 40 ms are read every 16 s by one reader. That is 0.25 % of a processor.
 *
 * In between a reader may glance at the first LISTING_SMALL names, by as much duty again. On tmpfs
 * most kernels list the newest first, so that new jobs meet at once beside any crowd; elsewhere
 * they meet at the next look.
 */
#ifndef SPILLWAY_LISTING_H
#define SPILLWAY_LISTING_H

#include <stdbool.h>
#include <stdint.h>

enum { LISTING_SMALL = 256, LISTING_DUTY = 400, LISTING_A_SECOND = 20000, LISTING_CROWD = 4096 };

/* One reader that comes again; zero at first. */
struct listing {
	bool is_counted;
	int entries;        /* seen since it was due */
	uint64_t took_ns;   /* likewise */
	uint64_t next_ns;   /* 0: at once */
	uint64_t glance_ns; /* likewise, of a glance */
};

/*
 * Calls each() with every name in a directory, until it returns false. Allocates nothing: a process
 * may exit in a signal handler, with malloc's lock held. Returns the number of names, or a negative
 * errno.
 */
int listing_read(int directory, bool (*each)(void *cookie, int directory, const char *name),
                 void *cookie);
/* Does so for a path. A crowd is logged once: how many names, their owner, and the remedy. */
int listing_read_path(const char *path, bool (*each)(void *cookie, int directory, const char *name),
                      void *cookie);
/* Returns whether this reader may list now, and begins a look. */
bool listing_is_due(struct listing *listing, uint64_t now_ns);
/* Lists a path as a part of that look. */
int listing_look(struct listing *listing, const char *path,
                 bool (*each)(void *cookie, int directory, const char *name), void *cookie);
/* Glances at a path, where that is due. Returns false where it is not. */
bool listing_glance(struct listing *listing, const char *path, uint64_t now_ns,
                    bool (*each)(void *cookie, int directory, const char *name), void *cookie);

#endif

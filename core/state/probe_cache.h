/* SPDX-License-Identifier: MIT */
/*
 * The cache of the driver's probe: the abilities of this machine's drivers with memory on the host.
 *
 * `spillway doctor --probe` and `spillway run` write it (tools/doctor/probe.h), a program's process
 * only reads it. Root's is "driver-probe" in the node's directory and serves all users. A user's
 * own is "driver-probe" in the state directory. A line holds for one boot of the machine, one
 * driver and one kind of device:
 *
 *   boot ID driver 13000 module 580.65.06 device NVIDIA L40S: host 0 copy 0 node 0 mixed 0 unmap 0
 *   boot ID driver 13000 module 580.65.06 device NVIDIA L40S, NUMA node 1: crash
 *
 * A node has a line of its own, so that the answers serve processes of every cpuset.
 */
#ifndef SPILLWAY_PROBE_CACHE_H
#define SPILLWAY_PROBE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#define PROBE_CACHE "driver-probe"
/* The end of the name of the file by which a job's process asks `spillway run` for a probe. */
#define PROBE_WANTED ".probe"

/* An answer is an error of the driver's, 0 for success, or: */
enum { PROBE_CRASHED = -1, PROBE_UNKNOWN = -2 };
enum { PROBE_NODES = 64, PROBE_CACHE_MAX = 16384, PROBE_LINE_MAX = 320 };

/* Questions with one answer for all NUMA nodes. */
enum probe_question {
	PROBE_HOST,  /* memory of the host without a node */
	PROBE_COPY,  /* copies between memory of the host and the program's own */
	PROBE_NODE,  /* a copy between both in a graph, after its memory came to the device */
	PROBE_MIXED, /* copies and fills over a border between it and memory of the device */
	PROBE_UNMAP, /* unmapping and releasing beside work; 600: they wait for it */
	PROBE_QUESTIONS,
};

struct probe_answers {
	int of[PROBE_QUESTIONS];
	int numa[PROBE_NODES]; /* memory of the host's NUMA node of that number */
};

enum probe_place { PROBE_OF_ROOT, PROBE_OF_USER, PROBE_PLACES };

/* The name of a question in the cache and in the program that asks it. */
const char *probe_question_name(enum probe_question question);
/* Fills in the beginning of the lines of a driver and a kind of device. version is CUDA's. */
void probe_cache_key(int version, const char *device, char *key, size_t size);
/* Fills path with where the cache of a place is. */
const char *probe_cache_path(enum probe_place place, char *path, size_t size);
/*
 * Reads a cache as text of at most PROBE_CACHE_MAX bytes. Returns 0 or a negative errno: -ENOENT
 * there is none, -EPERM it belongs to another user or other users may write to it, -ELOOP or
 * -EINVAL it is no regular file.
 */
int probe_cache_read(enum probe_place place, char *text);
/* Reads one answer as it is written, "0" or "crash". Returns PROBE_UNKNOWN for other text. */
int probe_answer_read(const char *text);
/*
 * Fills in the answers that a text has for a key: PROBE_UNKNOWN, where it has none. Returns whether
 * it has them for the kind of device. A damaged line is as none.
 */
bool probe_cache_find(const char *text, const char *key, struct probe_answers *found);
/*
 * Looks the key up, in root's cache first; the user's own adds nodes that root's lacks. Returns
 * whether either has it; place (may be NULL) then says which. Keeps errno. No cancellation point
 * but open() and read().
 */
bool probe_cache_look_up(const char *key, struct probe_answers *found, enum probe_place *place);

#endif

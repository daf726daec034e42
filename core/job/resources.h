/*
 * The resources of a live process, listed for whoever of its user asks: `spillway stat JOB --resources`.
 *
 * The one who asks listens, on a socket in the state directory whose name only those know who can read the segment; the
 * process asked looks for it when its helper thread is awake, as inotify wakes it, connects and sends one packet with one
 * descriptor: an anonymous file, of a line per resource. So a process has no socket, thread or descriptor for this, a
 * program that closes what it does not know closes nothing, and nobody waits for who reads slowly or asks in vain.
 */
#ifndef SPILLWAY_RESOURCES_H
#define SPILLWAY_RESOURCES_H

#include <stdint.h>

#include "core/budget/device.h"
#include "core/memory/ipc/wire.h"

enum {
	RESOURCES_VERSION = 1,
	RESOURCES_MAX = 65536, /* listed */
	RESOURCES_LOOK_MS = 10,
	RESOURCES_LINE_MAX = REGISTRY_HANDLE_MAX + 48,
};

struct resources_reply {
	char magic[8]; /* "SPILRSRC" */
	uint32_t version;
	int32_t error;     /* an errno: no descriptor comes with it */
	uint64_t listed;   /* lines: "BYTES AGE HANDLE", age in ns */
	uint64_t left_out; /* resources beyond RESOURCES_MAX */
	uint64_t size;     /* of the file */
};

/* Where the process is asked that joined the segment with this token then. */
struct share_token resources_token(uint64_t segment_token, uint64_t started_ns);
/* A reply that says nothing yet. */
struct resources_reply resources_reply_new(void);

/* The helper thread's. Of this process, once it has joined; may read the environment. */
void resources_start(const struct segment *segment);
/*
 * Answers who asks, if anybody does: one system call if not. Makes no driver call. True: somebody is about to listen, to be
 * looked for again in RESOURCES_LOOK_MS.
 */
bool resources_answer(const struct device_set *devices);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The messages between who asks for the resources of a live process, `spillway stat JOB
 * --resources`, and that process.
 *
 * The one who asks listens, on a socket in the state directory whose name only those know who can
 * read the segment; the process asked (core/job/resources.h) connects and sends one packet with one
 * descriptor: an anonymous file, of a line per resource.
 */
#ifndef SPILLWAY_RESOURCES_WIRE_H
#define SPILLWAY_RESOURCES_WIRE_H

#include <stdint.h>

#include "core/wire/wire.h"
#include "core/registry/registry.h"

enum {
	RESOURCES_VERSION = 1,
	RESOURCES_MAX = 1 << 26, /* listed; more is no answer */
	RESOURCES_LINE_MAX = REGISTRY_HANDLE_MAX + 48,
};

struct resources_reply {
	char magic[8]; /* "SPILRSRC" */
	uint32_t version;
	int32_t error;     /* an errno: no descriptor comes with it */
	uint64_t listed;   /* lines: "BYTES AGE HANDLE", age in ns */
	uint64_t left_out; /* resources that came while they were listed */
	uint64_t size;     /* of the file */
};

/* Returns where the process is asked that joined the segment with this token then. */
struct wire_token resources_token(uint64_t segment_token, uint64_t started_ns);
/* Returns a reply that says nothing yet. */
struct resources_reply resources_reply_new(void);

#endif

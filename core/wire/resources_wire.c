/* SPDX-License-Identifier: MIT */
/*
 * The name of the socket on which a process is asked for its resources, and the head of its answer.
 */
#include "core/wire/resources_wire.h"

#include <string.h>

struct wire_token resources_token(uint64_t segment_token, uint64_t started_ns)
{
	struct wire_token token;

	memcpy(token.bytes, &segment_token, 8);
	memcpy(token.bytes + 8, &started_ns, 8);
	return token;
}

struct resources_reply resources_reply_new(void)
{
	struct resources_reply reply = {.version = RESOURCES_VERSION};

	memcpy(reply.magic, "SPILRSRC", sizeof(reply.magic));
	return reply;
}

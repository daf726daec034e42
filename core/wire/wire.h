/* SPDX-License-Identifier: MIT */
/*
 * The messages of two processes about memory that one gives to the other: the handle, the messages,
 * the socket.
 *
 * handle    64 bytes that stand for one allocation; they name the socket to ask
 * token     a random name of the process that gives memory; its socket is share-TOKEN.socket in the
 *           state directory
 * piece     one physical allocation of the driver, which travels as a file descriptor
 *
 * One request, one reply with at most WIRE_BATCH descriptors, each in one message: a socket of
 * packets, so nothing comes in halves. Neither side believes the other: sizes, counts and the
 * peer's user are checked. All functions are thread-safe, never wait beyond the deadline, and
 * answer 0 or a negative errno unless they say otherwise.
 */
#ifndef SPILLWAY_WIRE_H
#define SPILLWAY_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/registry/registry.h"

enum { WIRE_VERSION = 2, WIRE_BATCH = 32 };
#define WIRE_PATIENCE_NS 2000000000ull /* for one answer */

struct wire_token {
	uint8_t bytes[16];
};

#define WIRE_MAGIC "spillmem"

struct wire_handle {
	char magic[8];
	uint32_t version; /* of handle and messages: raise it whenever either changes */
	int32_t pid;      /* of the process that gave it, for messages alone */
	struct wire_token token;
	uint64_t number;  /* of the allocation, never used twice in that process */
	uint64_t address; /* in that process */
	uint64_t size;    /* bytes, as asked for */
	uint64_t zero;
};
_Static_assert(sizeof(struct wire_handle) == 64, "it is what a CUipcMemHandle holds");

struct wire_request {
	struct wire_handle handle;
	uint32_t first; /* piece */
	uint32_t most;  /* descriptors in the reply, up to WIRE_BATCH */
};

enum wire_status {
	WIRE_OK,
	WIRE_GONE,     /* the allocation was freed, or never was */
	WIRE_BUSY,     /* no descriptor can be had just now */
	WIRE_DRIVER_S, /* it lies in memory of which the driver makes handles; none is a piece */
};

struct wire_reply {
	uint32_t status; /* enum wire_status; the rest holds for WIRE_OK and WIRE_DRIVER_S */
	uint32_t count;  /* descriptors that come with it: the pieces from `first` on */
	uint32_t total;  /* pieces of the allocation */
	uint32_t first;
	uint64_t bytes;  /* of all pieces, or of the driver's memory */
	uint64_t offset; /* where in the first piece of all the allocation begins */
	union {
		uint64_t size[WIRE_BATCH];
		uint8_t driver_s[64]; /* of WIRE_DRIVER_S: the driver's handle of that memory */
	};
};

/* Returns whether the 64 bytes are a handle of Spillway's, of this version or another. */
bool wire_handle_is_ours(const void *bytes);
/* Returns a handle of this version with nothing else in it. */
static inline struct wire_handle wire_handle_new(void)
{
	struct wire_handle handle = {.version = WIRE_VERSION};

	memcpy(handle.magic, WIRE_MAGIC, sizeof(handle.magic));
	return handle;
}

uint64_t wire_deadline(uint64_t patience_ns); /* from now */

int wire_token_make(struct wire_token *token);

/*
 * Makes this process's socket, in the state directory, non-blocking and CLOEXEC. Returns its
 * descriptor.
 */
int wire_listen(const struct wire_token *token, char *message, size_t size);
/* Returns where that is; empty where the path is too long. */
void wire_socket_path(const struct wire_token *token, char *path, size_t size);
/*
 * Returns whether the descriptor is still that socket, or one that was accepted from it: programs
 * close descriptors that they do not know.
 */
bool wire_is_socket_of(int fd, const struct wire_token *token);
/* Takes the socket's name away. */
void wire_unlink(const struct wire_token *token);
/* Removes the names of sockets without a listener. */
void wire_sweep(void);
/*
 * Accepts a connection. Returns its descriptor; -EAGAIN: none is waiting; -EPERM: it is another
 * user's and is refused.
 */
int wire_accept(int listener);
/*
 * Connects to a process. Returns the descriptor. -ENOENT and -ECONNREFUSED: the process is gone, or
 * is not to be found from here.
 */
int wire_connect(const struct wire_token *token, uint64_t deadline);

/* Sends one message. deadline 0: at once or -EAGAIN. The descriptors stay the caller's. */
int wire_send(int fd, const void *message, size_t size, const int *descriptors, size_t count,
              uint64_t deadline);
/*
 * Receives one message of exactly this size (else -EPROTO; -EPIPE: the other side has gone) and at
 * most `room` descriptors, now the caller's and CLOEXEC. *count may be less than the sent number
 * where the process can have no more.
 */
int wire_receive(int fd, void *message, size_t size, int *descriptors, size_t room, size_t *count,
                 uint64_t deadline);

/*
 * The messages between a process that asks for the resources of a live process, `spillway stat JOB
 * --resources`, and that process.
 *
 * The asking process listens, on a socket in the state directory with a name that only readers of
 * the segment know. The process asked (core/modules/resources) connects and sends one packet with
 * one descriptor: an anonymous file, of a line per resource.
 */
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

/*
 * What two processes say to each other about memory that one gives to the other: the handle, the messages, the socket.
 *
 * handle    64 bytes that stand for one allocation; they say whose socket to ask
 * token     a random name of the process that gives memory; its socket is share-TOKEN.socket in the state directory
 * piece     one physical allocation of the driver, which travels as a file descriptor
 *
 * One request, one reply with at most SHARE_BATCH descriptors, each in one message: a socket of packets, so nothing
 * comes in halves. Neither side believes the other: sizes, counts and the peer's user are checked. All functions are
 * thread-safe, never wait beyond the deadline, and answer 0 or a negative errno unless they say otherwise.
 */
#ifndef SPILLWAY_SHARE_WIRE_H
#define SPILLWAY_SHARE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHARE_VERSION = 1, SHARE_BATCH = 32 };
#define SHARE_PATIENCE_NS 2000000000ull /* for one answer */

struct share_token {
	uint8_t bytes[16];
};

struct share_handle {
	char magic[8];
	uint32_t version; /* of handle and messages: raise it whenever either changes */
	int32_t pid;      /* of the process that gave it, for messages alone */
	struct share_token token;
	uint64_t number;  /* of the allocation, never used twice in that process */
	uint64_t address; /* in that process */
	uint64_t size;    /* bytes, as asked for */
	uint64_t zero;
};
_Static_assert(sizeof(struct share_handle) == 64, "it is what a CUipcMemHandle holds");

struct share_request {
	struct share_handle handle;
	uint32_t first; /* piece */
	uint32_t most;  /* descriptors in the reply, up to SHARE_BATCH */
};

enum share_status {
	SHARE_OK,
	SHARE_GONE, /* the allocation was freed, or never was */
	SHARE_BUSY, /* no descriptor can be had just now */
};

struct share_reply {
	uint32_t status; /* enum share_status; the rest holds for SHARE_OK */
	uint32_t count;  /* descriptors that come with it: the pieces from `first` on */
	uint32_t total;  /* pieces of the allocation */
	uint32_t first;
	uint64_t bytes;  /* of all pieces */
	uint64_t offset; /* where in the first piece of all the allocation begins */
	uint64_t size[SHARE_BATCH];
};

/* Whether the 64 bytes are a handle of ours, of this version or another. */
bool share_handle_is_ours(const void *bytes);
/* A handle of this version with nothing else in it. */
struct share_handle share_handle_new(void);

uint64_t share_deadline(uint64_t patience_ns); /* from now */

int share_token_make(struct share_token *token);

/* The socket of this process, in the state directory, non-blocking and CLOEXEC. The descriptor. */
int share_listen(const struct share_token *token, char *message, size_t size);
/* Where that is. Empty where the path is too long. */
void share_socket_path(const struct share_token *token, char *path, size_t size);
/* Whether the descriptor is still that socket, or one that was accepted from it: programs close what they do not know. */
bool share_is_socket_of(int fd, const struct share_token *token);
/* Takes the socket's name away. */
void share_unlink(const struct share_token *token);
/* Removes the names of sockets that nobody listens at any more. */
void share_sweep(void);
/* -EAGAIN: nobody is waiting. Others are refused: -EPERM. */
int share_accept(int listener);
/* The descriptor. -ENOENT and -ECONNREFUSED: the process is gone, or is not to be found from here. */
int share_connect(const struct share_token *token, uint64_t deadline);

/* One message. deadline 0: at once or -EAGAIN. The descriptors stay the caller's. */
int share_send(int fd, const void *message, size_t size, const int *descriptors, size_t count,
               uint64_t deadline);
/*
 * One message of exactly this size (else -EPROTO; -EPIPE: the other side has gone) and at most `room` descriptors,
 * now the caller's and CLOEXEC. *count may be less than what was sent where the process can have no more.
 */
int share_receive(int fd, void *message, size_t size, int *descriptors, size_t room, size_t *count,
                  uint64_t deadline);

#endif

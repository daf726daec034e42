/* SPDX-License-Identifier: MIT */
/*
 * The thread that answers other processes which open memory of this one. It starts with the first
 * handle that is given away and needs no context. It waits for no peer: a reply fits its socket,
 * and a peer without a request for long gives its place to another.
 *
 * It answers one request with one packet of at most 32 descriptors, so much memory needs few. Its
 * socket is a file in the state directory, no abstract name, so it is reached across network
 * namespaces; a path too long for a socket goes by /proc/self/fd.
 */
#ifndef SPILLWAY_IPC_SERVER_H
#define SPILLWAY_IPC_SERVER_H

#include "core/wire/wire.h"

/*
 * Fills the reply, and its descriptors as far as the request asks for them; the server closes them.
 * On its thread.
 */
typedef void ipc_answer(const struct wire_request *request, struct wire_reply *reply,
                        int descriptors[WIRE_BATCH]);
/* Returns whether the token is this process's. */
bool ipc_is_own(const struct wire_token *token);
/* Forgets the socket in a forked child: it is the parent's. Takes no lock. */
void ipc_forked(void);
/* Takes the socket's name out of the state directory, when the process ends. */
void ipc_stop(void);

#endif

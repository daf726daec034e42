/* SPDX-License-Identifier: MIT */
/*
 * HTTP: a site answers requests of GET, HEAD and POST, none of which has a body.
 */
#ifndef SPILLWAY_SERVE_H
#define SPILLWAY_SERVE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SERVE_URL_MAX = 96, SERVE_WORDS = 8 };

struct serve_request {
	const char *method, *path;
	const char *query;                         /* behind the "?"; "": none */
	const char *host, *origin, *authorization; /* headers; "": not there */
};

struct serve_answer {
	const char *status, *headers; /* of static storage; each header ends with "\r\n" */
	FILE *body;
	/*
	 * Where ended is set, the answer is made of a command of the tool that runs meanwhile. Its
	 * words are allocated, and stand as after "spillway", NULL-terminated.
	 */
	char *command[SERVE_WORDS];
	char *about; /* allocated; ended() finds it in its answer again. NULL: none */
	/* Returns whether a line of it matters; NULL: all do. */
	bool (*matters)(const char *line);
	/* Writes the answer from the end of what the command said, which it may change. */
	void (*ended)(struct serve_answer *answer, char *said, bool failed);
};

struct serve_site {
	void (*answer)(const struct serve_request *request, struct serve_answer *answer,
	               void *cookie);
	void (*tick)(void *cookie); /* called every tick_ns; NULL: not */
	uint64_t tick_ns;
	void *cookie;
};

/* Ends with a usage error unless it is ADDRESS:PORT in numbers. */
void serve_check(const char *address);
/*
 * Listens on an address; with port 0 the kernel chooses one. Fills in "http://ADDRESS:PORT".
 * Returns the listener, or ends the tool.
 */
int serve_listen(const char *address, char url[SERVE_URL_MAX]);
/* Likewise on a socket file of mode 0600, which takes the place of one without a server. */
int serve_listen_file(const char *path);
/* Serves until a signal ends the process. */
_Noreturn void serve(int listener, const struct serve_site *site);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Jobs of the node that are not in our state directory: those of other users, and of containers.
 * They are known by the page that each puts into the node's directory (core/pages/page.h).
 */
#ifndef SPILLWAY_NODE_H
#define SPILLWAY_NODE_H

#include "core/pages/page.h"

enum { NODE_USER_MAX = 33, NODE_TOKEN_DIGITS = 16, NODE_NAME_MAX = 64 + 1 + NODE_TOKEN_DIGITS };

struct node_jobs {
	struct node_job {
		struct page page;
		char user[NODE_USER_MAX];
		uid_t owner;
		bool running;
		int digits; /* of the token that tell it from another of this user and name; 0:
		               there is none */
	} * job;
	int count;
	struct node_job *own; /* likewise, those of our state directory */
	int own_count;
};

/*
 * Reads them, in order of user and name. Files with a page's name that are none are said in one
 * line. The caller frees it.
 */
void node_jobs_read(struct node_jobs *jobs);
/* Adds a copy of one. */
void node_jobs_add(struct node_jobs *jobs, const struct node_job *job);
void node_jobs_free(struct node_jobs *jobs);

/*
 * Tells for each GPU whether the job's share may not hold there: jobs of other users run on it, and
 * no turn file of root's lets the job take turns with them. The rights of the job's processes
 * decide that, for every caller. jobs: those of the node; NULL: they are read where that is needed.
 */
void node_find_apart(const struct segment_view *view, const struct node_jobs *jobs,
                     bool is_apart[SEGMENT_DEVICES]);

/* Writes a user's name, or the number where there is none. Returns buf. */
const char *node_user(uid_t owner, char *buf, size_t size);

/*
 * Writes the job's name for commands: "NAME", or "NAME@TOKEN" with as much of its token as is
 * unique. Returns buf.
 */
const char *node_name(const struct node_job *job, char buf[NODE_NAME_MAX]);
/* Writes a token as it is typed. */
void node_token(uint64_t token, char text[NODE_TOKEN_DIGITS + 1]);

#endif

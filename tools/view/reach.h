/* SPDX-License-Identifier: MIT */
/*
 * Reach: which jobs, beyond those of the state directory, may be looked at and acted on. Each user
 * reaches their own, also those of containers, and root those of all users. For example, the user
 * with uid 1000 sees that a job of uid 1001 holds 4 GiB, and cannot change its limit. It is decided
 * here alone.
 */
#ifndef SPILLWAY_REACH_H
#define SPILLWAY_REACH_H

#include "tools/view/jobs.h"
#include "tools/view/node.h"

/*
 * Goes to the job's state directory when the job, "NAME", "USER/NAME" or either with "@TOKEN", is
 * not in ours but on the node, also where that directory is a container's own; root becomes its
 * user for good. *job is its plain name then. Returns false after one line that says why not.
 */
bool reach_job(const char **job);

/* Going through all jobs: those of the state directory, then the rest of the node's. */
struct reach_walk {
	struct segment_view *view;   /* NULL: it is out of reach, or cannot be read */
	const struct node_job *page; /* NULL: it is one of the state directory */
	const struct page *told;     /* the page in any case; NULL: there is none */
	const char *user;
	int directory;         /* of reach_walk_others(): the job's, where there is a view */
	struct node_jobs node; /* as they were at the beginning, until the end */
	/* private */
	struct jobs_walk own;
	int next;
	bool opens;
	uint64_t looked_ns;
	char own_user[NODE_USER_MAX];
};
/* Begins with those that are there now; job: with that one of the state directory alone. */
struct reach_walk reach_walk(const char *job);
/*
 * Begins with those that are not of the state directory alone, and opens each one's; the caller
 * closes them.
 */
struct reach_walk reach_walk_others(void);
/* Goes on to the next. Returns whether there is one. */
bool reach_next(struct reach_walk *walk);

/*
 * Reads another job of the node, as its user. NULL: it is out of reach. directory (may be NULL) is
 * the descriptor of its state directory then. The caller frees and closes.
 */
struct segment_view *reach_view(const struct node_job *job, int *directory);
/*
 * Surround looking at a user's files, as that user. reach_begin() returns false, and reach_end()
 * may be called or not, where they are out of reach.
 */
bool reach_begin(uid_t owner);
void reach_end(void);

#endif

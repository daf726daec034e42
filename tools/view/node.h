/*
 * Jobs of the node that are not in our state directory: those of other users, and of containers.
 * They are known by the page that each puts into the node's directory (core/pages/page.h), and
 * reached by root alone.
 */
#ifndef SPILLWAY_NODE_H
#define SPILLWAY_NODE_H

#include "core/pages/page.h"

enum { NODE_USER_MAX = 33, NODE_NAME_MAX = 64 + 1 + 16 };

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
};

/*
 * Reads them, in order of user and name. Files with a page's name that are none are said in one
 * line. The caller frees it.
 */
void node_jobs_read(struct node_jobs *jobs);
void node_jobs_free(struct node_jobs *jobs);

/* Writes a user's name, or the number where there is none. Returns buf. */
const char *node_user(uid_t owner, char *buf, size_t size);

/*
 * Writes what to type for the job: "NAME", or "NAME@TOKEN" with as much of its token as tells it
 * from others. Returns buf.
 */
const char *node_name(const struct node_job *job, char buf[NODE_NAME_MAX]);

/*
 * Goes to the job's state directory when the job, "NAME", "USER/NAME" or either with "@TOKEN", is
 * not in ours but on the node, also where that directory is a container's own; root becomes its
 * user for good. *job is its plain name then. Returns false after one line that says why not.
 */
bool node_reach(const char **job);

#endif

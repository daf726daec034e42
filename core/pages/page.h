/* SPDX-License-Identifier: MIT */
/*
 * Pages: the figures that a job publishes on its node, one file per job in the node's directory
 * (directory.h).
 *
 * page    job-UID-NAME-NUMBER.page, 0644: name, labels, devices, use, limits and shares of one job.
 *         One of its processes at a time writes it, by rename, when something changed and now and
 *         then as a sign of life
 * owner   the user of the file; the page itself does not name one
 * token   the job's segment, so that a process that can read that needs no page of it
 * number  random, so that no process sits on the page's name before. A user that has seen it and
 *         takes it while the page is away gains nothing: the next one bears another. The file it is
 *         written as first has a random name each time.
 *
 * A hint: all users may put files there. A page has one fixed size and is checked before it is
 * believed. Nothing depends on it except the display, and to which directory of its owner root is
 * led. The number of files that are looked at is bounded for each user, so that no user's files
 * hide those of another.
 *
 * Root acts on the job of another user only after becoming that user for good, so a forged page
 * leads nowhere its owner could not go. A page is stale by its writer's start time, and in another
 * pid namespace by its age.
 */
#ifndef SPILLWAY_PAGE_H
#define SPILLWAY_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/state/directory.h"
#include "core/state/segment.h"

enum {
	PAGE_VERSION = 3,
	PAGE_OF_OWNER_MAX =
	    1024, /* pages of one user that are listed, and files that are none but looked at */
};
#define PAGE_CHANGED_NS 2000000000ull  /* it is written at most this often */
#define PAGE_BEAT_NS    5000000000ull  /* and at least this often */
#define PAGE_STALE_NS   15000000000ull /* older: its job is dead, where nothing better is known */

struct page_device {
	struct segment_device device;
	uint64_t charged[2]; /* by enum segment_tier */
	uint64_t limit;      /* limit_set; 0: not known */
	uint64_t share;      /* share_set */
	uint64_t host_limit; /* and one; 0: not known, or no number that holds */
};

struct page {
	char magic[8]; /* "SPILPAGE" */
	uint32_t version;
	uint32_t size;
	char boot_id[40];
	uint64_t token;
	uint64_t number;
	uint64_t created_ns; /* CLOCK_REALTIME; of this run */
	uint64_t written_ns; /* CLOCK_MONOTONIC */
	/* The writer; if it was alone, processes in its namespace learn its death by these. */
	uint64_t pid_namespace; /* 0: not known */
	uint64_t pid_started;   /* in the kernel's ticks; 0: not known */
	int32_t pid;
	uint32_t processes; /* of the job, live */
	char job[64];
	char labels[256];
	char directory[DIRECTORY_MAX + 8]; /* the job's state directory, as its processes call it */
	uint32_t device_count;
	uint32_t zero;
	struct page_device device[SEGMENT_DEVICES];
};

/* --- for the process that belongs to the job --- */

/*
 * Notes the host_limit of this process's settings for the page: a number of bytes, and one; 0:
 * none. Any thread.
 */
void page_note_host_limit(struct segment *segment, int device, uint64_t and_one);
/*
 * Writes the job's page if it is due and this process is the one to do it. The helper thread calls
 * it with segment_poll(). Without a directory of the node nothing is done. Opens files; waits for
 * no process.
 */
void page_publish(struct segment *segment);
/*
 * Withdraws the page as the process exits, after segment_exiting(), unless the job has other
 * processes. Any thread may call it.
 */
void page_withdraw(struct segment *segment);

/* --- readers --- */

struct page_found {
	struct page page; /* of a job that is dead: without processes, and nothing is charged */
	uid_t owner;
	bool lives;
};
/*
 * Calls each() for every page, of each user PAGE_OF_OWNER_MAX at most. Returns the number of files
 * that have a page's name and are none, or are too many, the first of them said in why; -1: there
 * is no such directory.
 */
int page_list(void (*each)(void *cookie, const struct page_found *found), void *cookie, char *why,
              size_t size);
/* Removes pages of our user for dead jobs. Returns how many. */
int page_sweep(void);

#endif

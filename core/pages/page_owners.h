/* SPDX-License-Identifier: MIT */
/* Counts the files of each user that were met among the pages of a node. Private to page.c. */
#ifndef SPILLWAY_PAGE_OWNERS_H
#define SPILLWAY_PAGE_OWNERS_H

#include <stdint.h>
#include <sys/types.h>

/* Counts the files of one user that were met. */
struct page_owner {
	uid_t uid;
	int pages, refused;
};

/* A table of those who have any, by uid, never more than half full. */
struct page_owners {
	struct page_owner *of;
	uint32_t size, used;    /* size: a power of two */
	struct page_owner none; /* where there is no memory for more, they share one */
};

struct page_owner *page_owner_of(struct page_owners *owners, uid_t uid);

#endif

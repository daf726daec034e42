/* SPDX-License-Identifier: MIT */
/* Counting files by owner. */
#include "core/pages/page_owners.h"

#include <stdbool.h>
#include <stdlib.h>

static bool is_met(const struct page_owner *owner)
{
	return owner->pages + owner->refused > 0;
}

static struct page_owner *place_of(struct page_owner *of, uint32_t size, uid_t uid)
{
	uint32_t at = (uint32_t)uid * 2654435761u;
	while (is_met(&of[at & (size - 1)]) && of[at & (size - 1)].uid != uid)
		at++;
	return &of[at & (size - 1)];
}

static bool grow(struct page_owners *owners)
{
	uint32_t size = owners->size ? 2 * owners->size : 64;
	struct page_owner *of = calloc(size, sizeof *of);
	if (!of)
		return false;
	for (uint32_t i = 0; i < owners->size; i++)
		if (is_met(&owners->of[i]))
			*place_of(of, size, owners->of[i].uid) = owners->of[i];
	free(owners->of);
	owners->of = of;
	owners->size = size;
	return true;
}

/*
 * Returns what is counted of this user, and counts him among those that were met: whoever asks
 * counts something of him.
 */
struct page_owner *page_owner_of(struct page_owners *owners, uid_t uid)
{
	if (2 * owners->used >= owners->size && !grow(owners))
		return &owners->none;
	struct page_owner *owner = place_of(owners->of, owners->size, uid);
	owners->used += !is_met(owner);
	owner->uid = uid;
	return owner;
}

/* SPDX-License-Identifier: MIT */
/*
 * The address map. Rules: runs inside the user's process; nothing is freed, so that a reader never
 * follows a pointer to freed memory.
 */
#include "core/base/address_map.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "core/base/late.h"
#include "core/base/lock.h"

enum {
	ADDRESS_BITS = 49,
	PIECE_BITS = 21, /* 2 MiB */
	LEAF_BITS = 10,  /* 2 GiB: of an arena's range few pages are written, mostly whole leaves */
	LEAF_PIECES = 1 << LEAF_BITS,
	PART_BITS = 9, /* 1 TiB: a part of the top is a page */
	PART_LEAVES = 1 << PART_BITS,
	PARTS = 1 << (ADDRESS_BITS - PIECE_BITS - LEAF_BITS - PART_BITS),
	NODES_AT_ONCE = 400, /* of 40 bytes */
};

/*
 * One range, linked to the next that begins in the piece where it ends. It does not change while it
 * is linked. A node that was taken out is used again, and never freed.
 */
struct node {
	_Atomic uint64_t first, size;
	void *_Atomic owner;
	_Atomic int kind;
	struct node *_Atomic next;
};

/* The lowest range in each piece. */
struct leaf {
	struct node *_Atomic piece[LEAF_PIECES];
};

/* A leaf; or the one node that all of its pieces would say, with the lowest bit set. */
typedef _Atomic uintptr_t top_entry;
/* Of PART_LEAVES entries each, once a range was added there: a process may have little room. */
static _Atomic(void *) parts[PARTS];
static LOCK_OF(LEAF) lock = LOCK_FREE;
/* Counts removals: a node is used again only after its own removal was counted. */
static _Atomic uint32_t removals;
static struct node *spare, *fresh, *fresh_end; /* taken out; never used */

/* Returns where an entry is; NULL: its part was never needed. */
static top_entry *top_at(uint64_t i)
{
	top_entry *part = late_of(&parts[i >> PART_BITS]);

	return part ? part + i % PART_LEAVES : NULL;
}

static uintptr_t entry_at(uint64_t i)
{
	top_entry *at = top_at(i);

	return at ? atomic_load_explicit(at, memory_order_acquire) : 0;
}

static uint64_t piece_of(uint64_t address)
{
	return address >> PIECE_BITS;
}

static struct node *lowest_in(uint64_t piece)
{
	uintptr_t entry = entry_at(piece >> LEAF_BITS);
	struct leaf *leaf = (struct leaf *)entry;

	if (entry & 1)
		return (struct node *)(entry - 1);
	return leaf ? atomic_load_explicit(&leaf->piece[piece % LEAF_PIECES], memory_order_acquire)
	            : NULL;
}

static bool address_map_has_changed(uint32_t since)
{
	return atomic_load_explicit(&removals, memory_order_relaxed) != since;
}

/*
 * Returns the node around an address, or the first after it in its piece; NULL if there is none. A
 * node that is taken out on the way may lead anywhere; so it is left as soon as that has changed.
 */
static struct node *node_from(uint64_t address, uint32_t since)
{
	struct node *node = lowest_in(piece_of(address));
	uint64_t first, size;

	while (node && !address_map_has_changed(since)) {
		first = atomic_load_explicit(&node->first, memory_order_acquire);
		size = atomic_load_explicit(&node->size, memory_order_acquire);
		if (address < first || address - first < size)
			return node;
		node = atomic_load_explicit(&node->next, memory_order_acquire);
	}
	return NULL;
}

static bool address_map_copy(const struct node *node, uint64_t address, struct address_range *range)
{
	if (!node)
		return false;
	range->first = atomic_load_explicit(&node->first, memory_order_acquire);
	range->size = atomic_load_explicit(&node->size, memory_order_acquire);
	range->owner = atomic_load_explicit(&node->owner, memory_order_acquire);
	range->kind = (enum address_kind)atomic_load_explicit(&node->kind, memory_order_acquire);
	return address - range->first < range->size;
}

static bool is_address(uint64_t address)
{
	return address >> ADDRESS_BITS == 0;
}

bool address_map_find(uint64_t address, struct address_range *found)
{
	bool is_found = false;
	uint32_t since;

	if (!is_address(address))
		return false;
	do {
		since = atomic_load_explicit(&removals, memory_order_acquire);
		is_found = address_map_copy(node_from(address, since), address, found);
	} while (address_map_has_changed(since));
	return is_found;
}

/* --- changing it, with the lock held --- */

static struct node *node_at(uint64_t address)
{
	return node_from(address, atomic_load_explicit(&removals, memory_order_relaxed));
}

/*
 * Maps zeroed memory. Nodes, like the tables, are mapped and not allocated: nothing points at them
 * that a search for leaks would see.
 */
static void *map_zeroed(size_t size)
{
	void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return mapped == MAP_FAILED ? NULL : mapped;
}

static struct node *take_node(void)
{
	struct node *node = spare;

	if (node) {
		spare = atomic_load_explicit(&node->next, memory_order_relaxed);
		return node;
	}
	if (fresh == fresh_end) {
		fresh = map_zeroed(NODES_AT_ONCE * sizeof(*fresh));
		fresh_end = fresh ? fresh + NODES_AT_ONCE : NULL;
	}
	return fresh ? fresh++ : NULL;
}

static void give_node(struct node *node)
{
	atomic_store_explicit(&node->next, spare, memory_order_release);
	spare = node;
}

/* Returns whether the range has all pieces of this entry of the top, and is alone there. */
static bool is_whole(uint64_t first, uint64_t last, size_t i)
{
	return first <= (uint64_t)i << LEAF_BITS && last >= (((uint64_t)i + 1) << LEAF_BITS) - 1 &&
	       !(entry_at(i) & ~(uintptr_t)1);
}

static bool make_leaves(uint64_t first, uint64_t last)
{
	for (size_t i = first >> LEAF_BITS; i <= last >> LEAF_BITS; i++) {
		void *leaf;

		if (!late_make(&parts[i >> PART_BITS], PART_LEAVES * sizeof(top_entry)))
			return false;
		if (entry_at(i) || is_whole(first, last, i))
			continue;
		leaf = map_zeroed(sizeof(struct leaf));
		if (!leaf)
			return false;
		atomic_store_explicit(top_at(i), (uintptr_t)leaf, memory_order_release);
	}
	return true;
}

/* Has the pieces from first to last say this node; NULL: none. */
static void address_map_say(uint64_t first, uint64_t last, struct node *node)
{
	for (uint64_t piece = first; piece <= last; piece++) {
		size_t i = piece >> LEAF_BITS;
		uintptr_t entry = entry_at(i);

		if (entry & 1 || !entry) { /* all of it: see make_leaves() */
			atomic_store_explicit(top_at(i), node ? (uintptr_t)node | 1 : 0,
			                      memory_order_release);
			piece |= LEAF_PIECES - 1;
			continue;
		}
		atomic_store_explicit(&((struct leaf *)entry)->piece[piece % LEAF_PIECES], node,
		                      memory_order_release);
	}
}

/* Returns the node that ends last before an address, in the address's piece. */
static struct node *node_before(uint64_t address)
{
	struct node *before = NULL, *node = lowest_in(piece_of(address));

	while (node && atomic_load(&node->first) < address) {
		before = node;
		node = atomic_load(&node->next);
	}
	return before;
}

static bool address_map_is_free(uint64_t first, uint64_t size)
{
	uint64_t last = first + size - 1;
	const struct node *node = node_at(first);

	if (node && atomic_load(&node->first) <= last)
		return false;
	for (uint64_t piece = piece_of(first) + 1; piece <= piece_of(last); piece++) {
		node = lowest_in(piece);
		if (node && atomic_load(&node->first) <= last)
			return false;
		if (!entry_at(piece >> LEAF_BITS))
			piece |= LEAF_PIECES - 1;
	}
	return true;
}

static int address_map_do_add(const struct address_range *range)
{
	uint64_t last = range->first + range->size - 1;
	uint64_t from = piece_of(range->first), to = piece_of(last);
	struct node *node, *before;

	if (!address_map_is_free(range->first, range->size))
		return -EEXIST;
	if (!make_leaves(from, to) || !(node = take_node()))
		return -ENOMEM;
	before = node_before(range->first);
	atomic_store_explicit(&node->first, range->first, memory_order_release);
	atomic_store_explicit(&node->size, range->size, memory_order_release);
	atomic_store_explicit(&node->owner, range->owner, memory_order_release);
	atomic_store_explicit(&node->kind, (int)range->kind, memory_order_release);
	/* All in its last piece that are not before it are behind it. */
	atomic_store_explicit(&node->next,
	                      before && from == to ? atomic_load(&before->next) : lowest_in(to),
	                      memory_order_release);
	if (before)
		atomic_store_explicit(&before->next, node, memory_order_release);
	address_map_say(before ? from + 1 : from, to, node);
	return 0;
}

int address_map_add(const struct address_range *range)
{
	int error;

	if (!range->size || !is_address(range->first) ||
	    range->size > ((uint64_t)1 << ADDRESS_BITS) - range->first)
		return -ERANGE;
	lock_acquire(&lock);
	error = address_map_do_add(range);
	lock_release(&lock);
	return error;
}

static void address_map_take_out(struct node *node)
{
	uint64_t first = atomic_load(&node->first), last = first + atomic_load(&node->size) - 1;
	uint64_t from = piece_of(first), to = piece_of(last);
	struct node *before = node_before(first), *next = atomic_load(&node->next);

	if (before)
		atomic_store_explicit(&before->next, from == to ? next : NULL,
		                      memory_order_release);
	else
		address_map_say(from, from, from == to ? next : NULL);
	if (from < to) {
		address_map_say(from + 1, to - 1, NULL);
		address_map_say(to, to, next);
	}
	atomic_fetch_add_explicit(&removals, 1, memory_order_release);
	give_node(node);
}

bool address_map_remove(uint64_t first, const void *owner)
{
	struct node *node;
	bool is_there;

	if (!is_address(first))
		return false;
	lock_acquire(&lock);
	node = node_at(first);
	is_there = node && atomic_load(&node->first) == first && atomic_load(&node->owner) == owner;
	if (is_there)
		address_map_take_out(node);
	lock_release(&lock);
	return is_there;
}

/* Finds the owner for address_map_hold(), with the lock held. */
static void *hold_within(uint64_t first, uint64_t last, enum address_kind kind,
                         bool (*hold)(void *owner, void *cookie), void *cookie)
{
	for (uint64_t at = first; at <= last; at = (piece_of(at) + 1) << PIECE_BITS) {
		struct node *node = node_at(at);

		for (; node && atomic_load(&node->first) <= last; node = atomic_load(&node->next)) {
			if (atomic_load(&node->kind) == (int)kind &&
			    (!hold || hold(atomic_load(&node->owner), cookie)))
				return atomic_load(&node->owner);
		}
	}
	return NULL;
}

void *address_map_hold(uint64_t first, uint64_t size, enum address_kind kind,
                       bool (*hold)(void *owner, void *cookie), void *cookie)
{
	struct address_range found;
	void *owner;

	if (!size || !is_address(first) || size > ((uint64_t)1 << ADDRESS_BITS) - first ||
	    (size == 1 && (!address_map_find(first, &found) || found.kind != kind)))
		return NULL;
	lock_acquire(&lock);
	owner = hold_within(first, first + size - 1, kind, hold, cookie);
	lock_release(&lock);
	return owner;
}

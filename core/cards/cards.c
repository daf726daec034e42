/* SPDX-License-Identifier: MIT */
/*
 * The others' cards. Rules: runs inside the user's process; no wait, no allocation but for listing
 * a directory; a descriptor is used after a look whether it is still what was opened.
 */
#include "core/cards/cards.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/bells.h"
#include "core/base/clock.h"
#include "core/base/descriptor.h"
#include "core/base/file_status.h"
#include "core/state/directory.h"

#define CARD_MAGIC "SPILCARD"

enum { COPY_TRIES = 8 };

/* A directory that changed in this time before may hold what is not whole yet. */
#define SETTLES_NS 50000000ull
/* One that changes all the time is gone through so often. */
#define LOOKS_NS 10000000ull

void cards_start(struct cards *cards, const char *node, const char *state, const char *uuid,
                 uint64_t own_token)
{
	*cards = (struct cards){.node = node, .state = state, .uuid = uuid, .own_token = own_token};
}

/* Returns whether the descriptor is still what was opened. */
static bool is_ours(const struct cards_other *other, struct stat *found)
{
	return file_status_of(other->fd, found) == 0 && found->st_dev == other->volume &&
	       found->st_ino == other->inode;
}

/* Returns whether nobody holds the owner's lock. Where that cannot be asked somebody may. */
static bool is_unlocked(int fd)
{
	struct flock held = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_GETLK, &held) == 0 && held.l_type == F_UNLCK;
}

static bool is_recent(uint64_t then, uint64_t now, uint64_t within)
{
	return then + within > now && then < now + within;
}

static bool is_valid(const struct cards_other *other, const struct card *card)
{
	return memcmp(card->magic, CARD_MAGIC, sizeof card->magic) == 0 &&
	       card->version == CARD_VERSION && card->size == CARD_SIZE &&
	       card->check == card_check(card) && card->token == other->token &&
	       card->device == other->device;
}

/* Says who may be of the highest priority. */
static struct {
	bool (*may)(uid_t owner);
	uint8_t highest;
} judge;

void cards_judge(bool (*may_be_highest)(uid_t owner), uint8_t highest)
{
	judge.may = may_be_highest;
	judge.highest = highest;
}

/*
 * Copies a card. Returns whether it is to be kept: its owner lives. One that cannot be had whole,
 * because its owner was stopped while he wrote, stays what it was.
 */
static bool copy(struct cards_other *other, uint64_t now)
{
	struct stat found;
	struct card card;
	bool is_whole = false;

	if (!is_ours(other, &found) || found.st_nlink != 1 || found.st_size != CARD_SIZE)
		return false;
	for (int tries = 0; tries < COPY_TRIES && !is_whole; tries++) {
		if (pread(other->fd, &card, sizeof card, 0) != (ssize_t)sizeof card)
			return false;
		is_whole = is_valid(other, &card);
	}
	if (is_whole)
		other->card = card;
	if (judge.may && other->card.priority >= judge.highest && !judge.may(other->owner))
		other->card.priority = (uint8_t)(judge.highest - 1);
	if (!other->card.version)
		return false; /* it never was a card */
	other->is_silent = !is_recent(other->card.beat_ns, now, CARD_SILENT_NS);
	return other->card.is_locked ? !is_unlocked(other->fd) : !other->is_silent;
}

/* --- finding --- */

/* Returns where the UUID ends in what follows "card-": two dashes are behind it. */
static size_t uuid_length(const char *name)
{
	const char *last = strrchr(name, '-');
	size_t length = last ? (size_t)(last - name) : 0;

	while (length && name[length - 1] != '-')
		length--;
	return length ? length - 1 : 0;
}

/*
 * Takes the name apart: card-UUID-UID-TOKEN. Returns whether it is one of this device (NULL: of
 * any).
 */
static bool parse(const char *name, const char *uuid, struct cards_other *other)
{
	char expected[32], device[64], *end;
	size_t length;

	if (strncmp(name, "card-", 5) != 0)
		return false;
	name += 5;
	length = uuid ? strlen(uuid) : uuid_length(name);
	if (!length || length >= sizeof device || (uuid && strncmp(name, uuid, length) != 0) ||
	    name[length] != '-')
		return false;
	snprintf(device, sizeof device, "%.*s", (int)length, name);
	other->device = card_device(device);
	name += length + 1;
	other->owner = (uid_t)strtoul(name, &end, 10);
	if (end == name || *end != '-')
		return false;
	other->token = strtoull(end + 1, NULL, 16);
	snprintf(expected, sizeof expected, "%u-%016" PRIx64, (unsigned)other->owner, other->token);
	return other->token && strcmp(name, expected) == 0;
}

/* Removes a card of our user whose owner is dead, under its lock, that no new owner has it. */
static void sweep(int directory, const char *name)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (fcntl(fd, F_OFD_SETLK, &all) == 0)
		unlinkat(directory, name, 0);
	close(fd);
}

static int known(const struct cards *cards, uint64_t token, uid_t owner)
{
	for (int i = 0; i < cards->count; i++)
		if (cards->other[i].token == token && cards->other[i].owner == owner)
			return i;
	return -1;
}

static int count_of(const struct cards *cards, uid_t owner)
{
	int count = 0;

	for (int i = 0; i < cards->count; i++)
		count += cards->other[i].owner == owner;
	return count;
}

/* Returns whether one more of this user may be looked at. */
static bool has_room_for(const struct cards *cards, uid_t owner)
{
	int strangers = 0;

	if (cards->count == CARDS_MAX)
		return false;
	if (owner == geteuid())
		return true;
	for (int i = 0; i < cards->count; i++)
		strangers += cards->other[i].owner != geteuid();
	return count_of(cards, owner) < CARDS_OF_STRANGER && strangers < CARDS_OF_STRANGERS;
}

/*
 * Opens one whose name was taken apart and copies it; a dead one of our user is removed. Returns
 * whether it lives, and is left open.
 */
static bool is_met(struct cards_other *other, int directory, const char *name, uint64_t now)
{
	struct stat found;

	/* NONBLOCK: it might be a pipe */
	other->fd = descriptor_above_stdio(
	    openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
	if (other->fd < 0)
		return false;
	if (file_status_of(other->fd, &found) == 0 && S_ISREG(found.st_mode) &&
	    found.st_uid == other->owner) {
		other->volume = found.st_dev;
		other->inode = found.st_ino;
		if (copy(other, now))
			return true;
		if (other->owner == geteuid() && is_unlocked(other->fd))
			sweep(directory, name);
	}
	close(other->fd);
	return false;
}

/*
 * Wakes the owner of a card. The card is mapped and never read, because its owner may cut it short.
 * Returns whether the owner heard it.
 */
static bool ring(const struct cards_other *other)
{
	struct card *card = mmap(NULL, CARD_SIZE, PROT_READ, MAP_SHARED, other->fd, 0);
	bool is_heard;

	if (card == MAP_FAILED)
		return false;
	is_heard = bells_ring(&card->bell) != 0;
	munmap(card, CARD_SIZE);
	return is_heard;
}

/* Files of other users that were opened in vain. */
struct cards_tried {
	struct {
		uid_t owner;
		int count;
	} of[CARDS_OF_STRANGERS];
	int owners;
};

struct cards_search {
	struct cards *cards;
	uint64_t now_ns;
	struct cards_tried tried;
};

/* Returns the count of a user; of more users than there is room for the last ones share one. */
static int *cards_tried_of(struct cards_tried *tried, uid_t owner)
{
	int i = 0;

	while (i < tried->owners && tried->of[i].owner != owner)
		i++;
	if (i == CARDS_OF_STRANGERS)
		return &tried->of[i - 1].count;
	if (i == tried->owners)
		tried->of[tried->owners++].owner = owner;
	return &tried->of[i].count;
}

/*
 * Tries a name that is none of the cards: it may be one since. Its user is known to have made the
 * file before that is opened. So files in another user's name cost nothing of that user's tries.
 */
static bool cards_try(struct cards_search *search, struct cards_other *met, int directory,
                      const char *name)
{
	struct stat found;
	int *tried;

	if (!has_room_for(search->cards, met->owner) ||
	    file_status_at(directory, name, &found) != 0 || found.st_uid != met->owner)
		return false;
	tried = met->owner == geteuid() ? NULL : cards_tried_of(&search->tried, met->owner);
	if (tried && *tried >= CARDS_TRIED)
		return false;
	if (is_met(met, directory, name, search->now_ns))
		return true;
	if (tried)
		++*tried;
	return false;
}

static bool cards_find_one(void *cookie, int directory, const char *name)
{
	struct cards_search *search = cookie;
	struct cards *cards = search->cards;
	struct cards_other met = {.is_there = true};
	int at;

	if (!parse(name, cards->uuid, &met) || met.token == cards->own_token)
		return true;
	at = known(cards, met.token, met.owner);
	if (at >= 0) {
		cards->other[at].is_there = true;
	} else if (cards_try(search, &met, directory, name)) {
		cards->other[cards->count++] = met;
		(void)ring(&met); /* so that it looks for ours */
	} else {
		cards->has_unmet = true; /* it may not be whole yet, or room may come */
	}
	return true;
}

static bool cards_sweep_one(void *cookie, int directory, const char *name)
{
	const uint64_t *now_ns = cookie;
	struct cards_other other = {0};
	struct stat found;

	if (parse(name, NULL, &other) && other.owner == geteuid() &&
	    file_status_at(directory, name, &found) == 0 && found.st_uid == other.owner &&
	    is_met(&other, directory, name, *now_ns))
		close(other.fd);
	return true;
}

void cards_sweep(const char *directory, uint64_t now_ns)
{
	(void)listing_read_path(directory, cards_sweep_one, &now_ns);
}

static void forget(struct cards *cards, int i)
{
	struct stat found;

	if (is_ours(&cards->other[i], &found))
		close(cards->other[i].fd);
	cards->count--;
	memmove(&cards->other[i], &cards->other[i + 1],
	        (size_t)(cards->count - i) * sizeof cards->other[0]);
}

void cards_end(struct cards *cards)
{
	while (cards->count)
		forget(cards, cards->count - 1);
}

static void copy_all(struct cards *cards, uint64_t now)
{
	for (int i = cards->count - 1; i >= 0; i--)
		if (!copy(&cards->other[i], now)) {
			/* The next look sweeps the file, although its folder has not changed. */
			cards->has_unmet |= cards->other[i].owner == geteuid();
			forget(cards, i);
		}
}

/*
 * Returns whether something may have come into the directory since it was gone through. What came
 * just now may not have been whole then, and its time is told in ticks.
 */
static bool has_changed(const char *path, uint64_t *changed_ns)
{
	struct stat found;
	uint64_t at;

	if (path[0] != '/' || file_status(path, &found) != 0)
		return false;
	at = (uint64_t)found.st_mtim.tv_sec * 1000000000u + (uint64_t)found.st_mtim.tv_nsec;
	if (at == *changed_ns)
		return false;
	if (!is_recent(at, clock_of_day(), SETTLES_NS))
		*changed_ns = at;
	return true;
}

int cards_copy(struct cards *cards, uint64_t now_ns)
{
	if (now_ns >= cards->looked_ns + LOOKS_NS)
		return cards_look(cards, now_ns);
	copy_all(cards, now_ns);
	return cards->count;
}

bool cards_ring(const struct cards *cards)
{
	bool are_all_awake = true;
	struct stat found;

	for (int i = 0; i < cards->count; i++)
		if (is_ours(&cards->other[i], &found))
			are_all_awake &= ring(&cards->other[i]);
	return are_all_awake;
}

/* Returns whether the directories are to be gone through. */
static bool cards_are_stale(struct cards *cards)
{
	bool has_changed_now = has_changed(cards->node, &cards->node_changed_ns);

	has_changed_now |= has_changed(cards->state, &cards->state_changed_ns);
	return has_changed_now || cards->has_unmet;
}

int cards_look(struct cards *cards, uint64_t now_ns)
{
	struct cards_search search = {.cards = cards, .now_ns = now_ns};

	copy_all(cards, now_ns);
	if ((now_ns < cards->listing.next_ns && now_ns < cards->listing.glance_ns) ||
	    !cards_are_stale(cards))
		return cards->count;
	if (!listing_is_due(&cards->listing, now_ns)) {
		if (listing_glance(&cards->listing, cards->node, now_ns, cards_find_one, &search))
			cards->looked_ns = now_ns;
		cards->has_unmet = true; /* what a glance does not see */
		return cards->count;
	}
	cards->looked_ns = now_ns;
	cards->has_unmet = false;
	for (int i = 0; i < cards->count; i++)
		cards->other[i].is_there = false;
	listing_look(&cards->listing, cards->node, cards_find_one, &search);
	listing_look(&cards->listing, cards->state, cards_find_one, &search);
	for (int i = cards->count - 1; i >= 0; i--)
		if (!cards->other[i].is_there)
			forget(cards, i);
	return cards->count;
}

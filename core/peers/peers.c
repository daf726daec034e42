/* SPDX-License-Identifier: MIT */
/*
 * The peer records of other processes. Rules: runs inside the user's process; no wait, no
 * allocation except for listing a directory; a descriptor is used after a look whether it is still
 * the opened one.
 */
#include "core/peers/peers.h"

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

enum { COPY_TRIES = 8 };

/* A directory that changed in this time before may hold a file that is not whole yet. */
#define SETTLES_NS 50000000ull
/* One that changes all the time is gone through so often. */
#define LOOKS_NS 10000000ull

void peers_start(struct peers *peers, const char *node, const char *state, const char *uuid,
                 uint64_t own_token)
{
	*peers = (struct peers){.node = node, .state = state, .uuid = uuid, .own_token = own_token};
}

/* Returns whether the descriptor is still the opened one. */
static bool peers_is_ours(const struct peers_other *other, struct stat *found)
{
	return file_status_of(other->fd, found) == 0 && found->st_dev == other->volume &&
	       found->st_ino == other->inode;
}

/* Returns whether no process holds the owner's lock. Where that cannot be asked one may. */
static bool is_unlocked(int fd)
{
	struct flock held = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_GETLK, &held) == 0 && held.l_type == F_UNLCK;
}

static bool peers_is_recent(uint64_t then, uint64_t now, uint64_t within)
{
	return then + within > now && then < now + within;
}

static bool peers_is_valid(const struct peers_other *other, const struct peer_record *record)
{
	return shared_file_fits(&peer_format, record, record->size) == SHARED_FITS &&
	       record->check == peer_check(record) && record->token == other->token &&
	       record->device == other->device;
}

/* The users that may be of the highest priority. */
static struct {
	bool (*may)(uid_t owner);
	uint8_t highest;
} judge;

void peers_judge(bool (*may_be_highest)(uid_t owner), uint8_t highest)
{
	judge.may = may_be_highest;
	judge.highest = highest;
}

/*
 * Copies a peer record. Returns whether it is to be kept: its owner lives. One that cannot be had
 * whole, because its owner was stopped while it wrote, stays the same.
 */
static bool peers_do_copy(struct peers_other *other, uint64_t now)
{
	struct stat found;
	struct peer_record record;
	bool is_whole = false;

	if (!peers_is_ours(other, &found) || found.st_nlink != 1 || found.st_size != PEER_SIZE)
		return false;
	for (int tries = 0; tries < COPY_TRIES && !is_whole; tries++) {
		if (pread(other->fd, &record, sizeof record, 0) != (ssize_t)sizeof record)
			return false;
		is_whole = peers_is_valid(other, &record);
	}
	if (is_whole)
		other->record = record;
	other->group = found.st_gid;
	if (judge.may && other->record.priority >= judge.highest && !judge.may(other->owner))
		other->record.priority = (uint8_t)(judge.highest - 1);
	if (!other->record.version)
		return false; /* it never was a peer record */
	other->is_silent = !peers_is_recent(other->record.beat_ns, now, PEER_SILENT_NS);
	return other->record.is_locked ? !is_unlocked(other->fd) : !other->is_silent;
}

/* --- finding --- */

/* Returns where the UUID ends in the text after "card-": two dashes are behind it. */
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
static bool peers_parse(const char *name, const char *uuid, struct peers_other *other)
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
	other->device = peer_device(device);
	name += length + 1;
	other->owner = (uid_t)strtoul(name, &end, 10);
	if (end == name || *end != '-')
		return false;
	other->token = strtoull(end + 1, NULL, 16);
	snprintf(expected, sizeof expected, "%u-%016" PRIx64, (unsigned)other->owner, other->token);
	return other->token && strcmp(name, expected) == 0;
}

/*
 * Removes a peer record of our user with a dead owner, under its lock, so that no new owner has it.
 */
static void peers_do_sweep(int directory, const char *name)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (fcntl(fd, F_OFD_SETLK, &all) == 0)
		unlinkat(directory, name, 0);
	close(fd);
}

static int known(const struct peers *peers, uint64_t token, uid_t owner)
{
	for (int i = 0; i < peers->count; i++)
		if (peers->other[i].token == token && peers->other[i].owner == owner)
			return i;
	return -1;
}

static int count_of(const struct peers *peers, uid_t owner)
{
	int count = 0;

	for (int i = 0; i < peers->count; i++)
		count += peers->other[i].owner == owner;
	return count;
}

/* Returns whether one more of this user may be looked at. */
static bool has_room_for(const struct peers *peers, uid_t owner)
{
	int of_other_users = 0;

	if (peers->count == PEERS_MAX)
		return false;
	if (owner == geteuid())
		return true;
	for (int i = 0; i < peers->count; i++)
		of_other_users += peers->other[i].owner != geteuid();
	return count_of(peers, owner) < PEERS_OF_OTHER_USER &&
	       of_other_users < PEERS_OF_OTHER_USERS;
}

/*
 * Opens one with a parsed name and copies it; a dead one of our user is removed. Returns whether it
 * lives, and is left open.
 */
static bool peers_is_met(struct peers_other *other, int directory, const char *name, uint64_t now)
{
	struct stat found;

	/* NONBLOCK: it might be a pipe */
	other->fd = descriptor_aside(
	    openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
	if (other->fd < 0)
		return false;
	if (file_status_of(other->fd, &found) == 0 && S_ISREG(found.st_mode) &&
	    found.st_uid == other->owner) {
		other->volume = found.st_dev;
		other->inode = found.st_ino;
		if (peers_do_copy(other, now))
			return true;
		if (other->owner == geteuid() && is_unlocked(other->fd))
			peers_do_sweep(directory, name);
	}
	close(other->fd);
	return false;
}

/*
 * Wakes the owner of a peer record. The peer record is mapped and never read, because its owner may
 * cut it short. Returns whether the owner heard it.
 */
static bool ring(const struct peers_other *other)
{
	struct peer_record *record = mmap(NULL, PEER_SIZE, PROT_READ, MAP_SHARED, other->fd, 0);
	bool is_heard;

	if (record == MAP_FAILED)
		return false;
	is_heard = bells_ring(&record->bell) != 0;
	munmap(record, PEER_SIZE);
	return is_heard;
}

/* Files of other users that were opened in vain. */
struct peers_tried {
	struct {
		uid_t owner;
		int count;
	} of[PEERS_OF_OTHER_USERS];
	int owners;
};

struct peers_search {
	struct peers *peers;
	uint64_t now_ns;
	struct peers_tried tried;
};

/* Returns the count of a user; of more users than there is room for the last ones share one. */
static int *peers_tried_of(struct peers_tried *tried, uid_t owner)
{
	int i = 0;

	while (i < tried->owners && tried->of[i].owner != owner)
		i++;
	if (i == PEERS_OF_OTHER_USERS)
		return &tried->of[i - 1].count;
	if (i == tried->owners)
		tried->of[tried->owners++].owner = owner;
	return &tried->of[i].count;
}

/*
 * Tries a name that is none of the peer records: it may be one since. Its user is known to have
 * made the file before that is opened. So files in another user's name cost nothing of that user's
 * tries.
 */
static bool peers_try(struct peers_search *search, struct peers_other *met, int directory,
                      const char *name)
{
	struct stat found;
	int *tried;

	if (!has_room_for(search->peers, met->owner) ||
	    file_status_at(directory, name, &found) != 0 || found.st_uid != met->owner)
		return false;
	tried = met->owner == geteuid() ? NULL : peers_tried_of(&search->tried, met->owner);
	if (tried && *tried >= PEERS_TRIED)
		return false;
	if (peers_is_met(met, directory, name, search->now_ns))
		return true;
	if (tried)
		++*tried;
	return false;
}

static bool peers_find_one(void *cookie, int directory, const char *name)
{
	struct peers_search *search = cookie;
	struct peers *peers = search->peers;
	struct peers_other met = {.is_there = true};
	int at;

	if (!peers_parse(name, peers->uuid, &met) || met.token == peers->own_token)
		return true;
	at = known(peers, met.token, met.owner);
	if (at >= 0) {
		peers->other[at].is_there = true;
	} else if (peers_try(search, &met, directory, name)) {
		peers->other[peers->count++] = met;
		(void)ring(&met); /* so that it looks for ours */
	} else {
		peers->has_unmet = true; /* it may not be whole yet, or room may come */
	}
	return true;
}

static bool peers_sweep_one(void *cookie, int directory, const char *name)
{
	const uint64_t *now_ns = cookie;
	struct peers_other other = {0};
	struct stat found;

	if (peers_parse(name, NULL, &other) && other.owner == geteuid() &&
	    file_status_at(directory, name, &found) == 0 && found.st_uid == other.owner &&
	    peers_is_met(&other, directory, name, *now_ns))
		close(other.fd);
	return true;
}

void peers_sweep(const char *directory, uint64_t now_ns)
{
	(void)listing_read_path(directory, peers_sweep_one, &now_ns);
}

static void peers_forget(struct peers *peers, int i)
{
	struct stat found;

	if (peers_is_ours(&peers->other[i], &found))
		close(peers->other[i].fd);
	peers->count--;
	memmove(&peers->other[i], &peers->other[i + 1],
	        (size_t)(peers->count - i) * sizeof peers->other[0]);
}

void peers_end(struct peers *peers)
{
	while (peers->count)
		peers_forget(peers, peers->count - 1);
}

static void peers_copy_all(struct peers *peers, uint64_t now)
{
	for (int i = peers->count - 1; i >= 0; i--)
		if (!peers_do_copy(&peers->other[i], now)) {
			/* The next look sweeps the file, although its folder has not changed. */
			peers->has_unmet |= peers->other[i].owner == geteuid();
			peers_forget(peers, i);
		}
}

/*
 * Returns whether a file may have come into the directory since it was listed. A file that came
 * just now may not have been whole then, and its time is told in ticks.
 */
static bool peers_has_changed(const char *path, uint64_t *changed_ns)
{
	struct stat found;
	uint64_t at;

	if (path[0] != '/' || file_status(path, &found) != 0)
		return false;
	at = (uint64_t)found.st_mtim.tv_sec * 1000000000u + (uint64_t)found.st_mtim.tv_nsec;
	if (at == *changed_ns)
		return false;
	if (!peers_is_recent(at, clock_of_day(), SETTLES_NS))
		*changed_ns = at;
	return true;
}

int peers_copy(struct peers *peers, uint64_t now_ns)
{
	if (now_ns >= peers->looked_ns + LOOKS_NS)
		return peers_look(peers, now_ns);
	peers_copy_all(peers, now_ns);
	return peers->count;
}

bool peers_ring(const struct peers *peers)
{
	bool are_all_awake = true;
	struct stat found;

	for (int i = 0; i < peers->count; i++)
		if (peers_is_ours(&peers->other[i], &found))
			are_all_awake &= ring(&peers->other[i]);
	return are_all_awake;
}

/* Returns whether the directories are to be gone through. */
static bool peers_are_stale(struct peers *peers)
{
	bool has_changed_now = peers_has_changed(peers->node, &peers->node_changed_ns);

	has_changed_now |= peers_has_changed(peers->state, &peers->state_changed_ns);
	return has_changed_now || peers->has_unmet;
}

/* --- repeated listings --- */

#define NS_A_SECOND 1000000000ull

static _Atomic int readers;

/* Returns whether this reader may list now, and begins a look. */
static bool listing_is_due(struct listing *listing, uint64_t now_ns)
{
	if (now_ns < listing->next_ns)
		return false;
	if (!listing->is_counted)
		atomic_fetch_add(&readers, 1);
	*listing = (struct listing){.is_counted = true, .glance_ns = listing->glance_ns};
	return true;
}

/* Returns when a reader may read again that has read so many names in this time. */
static uint64_t listing_next(uint64_t ended_ns, uint64_t took_ns, int entries)
{
	uint64_t by_duty = took_ns * LISTING_DUTY;
	uint64_t by_count = (uint64_t)entries * (2 * NS_A_SECOND / LISTING_A_SECOND);

	return ended_ns +
	       (by_duty > by_count ? by_duty : by_count) * (uint64_t)atomic_load(&readers);
}

/* Lists a path as a part of that look. */
static int listing_look(struct listing *listing, const char *path,
                        bool (*each)(void *cookie, int directory, const char *name), void *cookie)
{
	uint64_t began = clock_now(), ended;
	int count = listing_read_path(path, each, cookie);

	ended = clock_now();
	listing->took_ns += ended - began;
	listing->entries += count > 0 ? count : 0;
	if (listing->entries > LISTING_SMALL)
		listing->next_ns = listing_next(ended, listing->took_ns, listing->entries);
	return count;
}

/* The names that a glance may still see. */
struct listing_first {
	bool (*each)(void *cookie, int directory, const char *name);
	void *cookie;
	int left;
};

static bool listing_see_first(void *cookie, int directory, const char *name)
{
	struct listing_first *first = cookie;

	return first->each(first->cookie, directory, name) && --first->left > 0;
}

/* Glances at a path, where that is due. Returns false where it is not. */
static bool listing_glance(struct listing *listing, const char *path, uint64_t now_ns,
                           bool (*each)(void *cookie, int directory, const char *name),
                           void *cookie)
{
	struct listing_first first = {each, cookie, LISTING_SMALL};
	uint64_t began = clock_now(), ended;
	int count;

	if (now_ns < listing->glance_ns)
		return false;
	count = listing_read_path(path, listing_see_first, &first);
	ended = clock_now();
	listing->glance_ns = listing_next(ended, ended - began, count > 0 ? count : 0);
	return true;
}

int peers_look(struct peers *peers, uint64_t now_ns)
{
	struct peers_search search = {.peers = peers, .now_ns = now_ns};

	peers_copy_all(peers, now_ns);
	if ((now_ns < peers->listing.next_ns && now_ns < peers->listing.glance_ns) ||
	    !peers_are_stale(peers))
		return peers->count;
	if (!listing_is_due(&peers->listing, now_ns)) {
		if (listing_glance(&peers->listing, peers->node, now_ns, peers_find_one, &search))
			peers->looked_ns = now_ns;
		peers->has_unmet = true; /* files that a glance does not see */
		return peers->count;
	}
	peers->looked_ns = now_ns;
	peers->has_unmet = false;
	for (int i = 0; i < peers->count; i++)
		peers->other[i].is_there = false;
	listing_look(&peers->listing, peers->node, peers_find_one, &search);
	listing_look(&peers->listing, peers->state, peers_find_one, &search);
	for (int i = peers->count - 1; i >= 0; i--)
		if (!peers->other[i].is_there)
			peers_forget(peers, i);
	return peers->count;
}

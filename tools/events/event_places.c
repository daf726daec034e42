/* SPDX-License-Identifier: MIT */
/* Places of event rings. */
#include "tools/events/event_places.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "tools/view/reach.h"
#include "tools/view/tool.h"

enum { OF_USER_MAX = 16 }; /* so many places of one user are read; more are not meant in earnest */

struct event_places {
	struct event_readers *readers;
	struct known {
		struct known *next;
		struct event_place place;
		uid_t owner;
		dev_t volume;
		ino_t inode;
		char user[NODE_USER_MAX];
	} * first; /* the latest */
};

static void event_places_add(struct event_places *places, const char *name, uid_t owner,
                             int directory)
{
	struct known *known = allocate(sizeof *known);
	struct stat found = {0};

	file_status_of(directory, &found);
	known->volume = found.st_dev;
	known->inode = found.st_ino;
	known->owner = owner;
	known->place = (struct event_place){
	    .directory = directory,
	    .user = owner == geteuid() ? NULL : node_user(owner, known->user, sizeof known->user),
	    .reader = event_readers_find(places->readers, name, directory),
	};
	known->next = places->first;
	places->first = known; /* a signal that comes now finds it whole */
}

struct event_places *event_places_create(const char *job, int directory, size_t room)
{
	struct event_places *places = allocate(sizeof *places);

	places->readers = event_readers_create(room);
	if (directory >= 0)
		event_places_add(places, job, geteuid(), directory);
	return places;
}

struct queue *event_places_work(struct event_places *places)
{
	return event_readers_work(places->readers);
}

struct ring_reader *event_places_own(const struct event_places *places)
{
	return places->first ? places->first->place.reader : NULL;
}

/* Returns whether the directory is known already, or its user has too many. */
static bool event_places_is_known(const struct event_places *places, uid_t owner, int directory)
{
	struct stat found;
	int of_user = 0;

	if (file_status_of(directory, &found) != 0)
		return true;
	for (const struct known *known = places->first; known; known = known->next) {
		if (known->volume == found.st_dev && known->inode == found.st_ino)
			return true;
		of_user += known->owner == owner;
	}
	return of_user >= OF_USER_MAX;
}

static void find_others(struct event_places *places)
{
	struct reach_walk walk = reach_walk_others();

	while (reach_next(&walk)) {
		char name[64];

		if (!walk.view)
			continue;
		if (event_places_is_known(places, walk.page->owner, walk.directory)) {
			close(walk.directory);
			continue;
		}
		snprintf(name, sizeof name, "%u.%d", (unsigned)walk.page->owner, walk.directory);
		event_places_add(places, name, walk.page->owner, walk.directory);
	}
}

void event_places_each(struct event_places *places, bool others,
                       void (*each)(void *cookie, const struct event_place *place), void *cookie)
{
	if (others)
		find_others(places);
	for (const struct known *known = places->first; known; known = known->next) {
		if (reach_begin(known->owner))
			each(cookie, &known->place);
		reach_end();
	}
}

void event_places_cancel(struct event_places *places)
{
	for (struct known *known = places->first; known; known = known->next)
		ring_reader_cancel(known->place.reader);
}

void event_places_destroy(struct event_places *places)
{
	for (struct known *known = places->first, *next; known; known = next) {
		next = known->next;
		close(known->place.directory);
		free(known);
	}
	event_readers_destroy(places->readers);
	free(places);
}

/* SPDX-License-Identifier: MIT */
/* Listings. Rules: runs inside the user's process; a descriptor is closed again. */
#include "core/state/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/base/log.h"

/* As the kernel gives them. */
struct listing_entry {
	uint64_t inode;
	int64_t offset;
	unsigned short length;
	unsigned char type;
	char name[];
};

/* Lists an open directory from where it stands. */
static int listing_walk(int fd, bool (*each)(void *cookie, int directory, const char *name),
                        void *cookie)
{
	_Alignas(struct listing_entry) char room[4096];
	int count = 0;
	long got;

	while ((got = syscall(SYS_getdents64, fd, room, sizeof room)) > 0) {
		for (long at = 0; at < got;) {
			const struct listing_entry *entry =
			    (const struct listing_entry *)(room + at);

			count++;
			if (!each(cookie, fd, entry->name))
				return count;
			at += entry->length;
		}
	}
	return got < 0 ? -errno : count;
}

int listing_read(int directory, bool (*each)(void *cookie, int directory, const char *name),
                 void *cookie)
{
	/* Not dup(): the offset would be shared. */
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int count = fd < 0 ? -errno : listing_walk(fd, each, cookie);

	if (fd >= 0)
		close(fd);
	return count;
}

/* The owner of a crowd of files: that of most of the first so many. */
enum { LISTING_ASKED = 512 };

struct listing_poll {
	int asked, votes;
	unsigned int owner;
};

static bool listing_ask_owner(void *cookie, int directory, const char *name)
{
	struct listing_poll *poll = cookie;
	struct stat found;

	if (file_status_at(directory, name, &found) != 0)
		return true;
	if (!poll->votes)
		poll->owner = (unsigned int)found.st_uid;
	poll->votes += poll->owner == (unsigned int)found.st_uid ? 1 : -1;
	return ++poll->asked < LISTING_ASKED;
}

static void listing_tell_crowd(const char *path, int fd, int count)
{
	struct listing_poll poll = {0};

	if (lseek(fd, 0, SEEK_SET) == 0)
		(void)listing_walk(fd, listing_ask_owner, &poll);
	log_once(LOG_WARNING,
	         "%s: %d files, most of user %u: jobs meet later, as the directory is read less "
	         "often; that user or root should remove the files that no job uses: spillway "
	         "doctor --clean",
	         path, count, poll.owner);
}

int listing_read_path(const char *path, bool (*each)(void *cookie, int directory, const char *name),
                      void *cookie)
{
	int fd = path[0] == '/' ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, count;

	if (fd < 0)
		return path[0] == '/' ? -errno : -EINVAL;
	count = listing_walk(fd, each, cookie);
	if (count > LISTING_CROWD)
		listing_tell_crowd(path, fd, count);
	close(fd);
	return count;
}

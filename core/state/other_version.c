/* SPDX-License-Identifier: MIT */
/*
 * Files of a version or build that this one cannot read: whether a process still has one.
 *
 * Of a segment magic, version, size and the boot's id keep their places in every version, and each
 * process of a job maps the file to write to it. The kernel knows whether any process has a file
 * open or mapped to write, in whatever namespace: it grants a read lease only where none does. A
 * lease is asked for on file systems that are known to count so; elsewhere nothing is known.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/state/layout.h"

#define XFS_MAGIC 0x58465342 /* which no header of the kernel's has */

/* What every version begins with. */
struct other_header {
	char magic[8];
	uint32_t version, is_unnamed;
	uint64_t size;
	char boot_id[SEGMENT_BOOT_ID_MAX];
};

static_assert(offsetof(struct other_header, size) == offsetof(struct segment_header, size) &&
                  offsetof(struct other_header, boot_id) ==
                      offsetof(struct segment_header, boot_id),
              "same in every version");

/* Returns whether a text is an id as the kernel draws it. */
static bool other_has_boot_id(const char id[SEGMENT_BOOT_ID_MAX])
{
	enum { LENGTH = 36 };

	return memchr(id, '\0', SEGMENT_BOOT_ID_MAX) == id + LENGTH &&
	       strspn(id, "0123456789abcdef-") == LENGTH && id[8] == '-' && id[23] == '-';
}

static bool other_is_of_another_boot(const struct other_header *header)
{
	char now[SEGMENT_BOOT_ID_MAX];

	segment_read_boot_id(now);
	return now[0] && other_has_boot_id(header->boot_id) && strcmp(now, header->boot_id) != 0;
}

/* Returns whether the file system counts those who have a file mapped to write. */
static bool other_counts_writers(int fd)
{
	struct statfs found;

	if (fstatfs(fd, &found) != 0)
		return false;
	switch ((unsigned long)found.f_type) {
	case TMPFS_MAGIC:
	case RAMFS_MAGIC:
	case EXT4_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case XFS_MAGIC:
		return true;
	default:
		return false;
	}
}

/*
 * Asks for a lease and gives it back. A process that opens the file to write meanwhile, which the
 * job lock keeps from happening, would have a signal sent: it is one that a process ignores, to
 * this thread alone.
 */
enum other_life segment_file_life(int fd)
{
	const struct f_owner_ex owner = {F_OWNER_TID, (pid_t)syscall(SYS_gettid)};

	if (!other_counts_writers(fd) || fcntl(fd, F_SETSIG, SIGURG) != 0 ||
	    fcntl(fd, F_SETOWN_EX, &owner) != 0)
		return OTHER_UNKNOWN;
	if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
		return errno == EAGAIN ? OTHER_LIVES : OTHER_UNKNOWN;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return OTHER_OVER;
}

static enum other_life other_judge(int fd, uint32_t *version)
{
	struct other_header header;
	struct stat found;

	if (file_status_of(fd, &found) != 0 || !S_ISREG(found.st_mode) ||
	    pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
	    memcmp(header.magic, SEGMENT_MAGIC, sizeof header.magic) != 0 ||
	    (header.version == SEGMENT_VERSION && header.size == sizeof(struct segment_file)))
		return OTHER_NONE;
	*version = header.version;
	return other_is_of_another_boot(&header) ? OTHER_OVER : segment_file_life(fd);
}

enum other_life segment_other_version(int directory, const char *job, uint32_t *version)
{
	char name[SEGMENT_FILE_NAME_MAX];
	enum other_life life = OTHER_NONE;
	int fd;

	snprintf(name, sizeof name, "%s.segment", job);
	fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		life = other_judge(fd, version);
		close(fd);
	}
	return life;
}

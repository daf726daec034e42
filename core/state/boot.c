/* SPDX-License-Identifier: MIT */
/* Which boot of the machine a file is of, and texts in files. Runs inside the user's process:
 * descriptors are CLOEXEC and closed again. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/state/layout.h"

void segment_copy_text(char *to, size_t size, const char *from)
{
	size_t length = strnlen(from, size - 1);
	memcpy(to, from, length);
	memset(to + length, 0, size - length);
}

size_t segment_read_line(const char *path, char *buf, size_t size)
{
	ssize_t length = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = read(fd, buf, size);
		close(fd);
	}
	return length > 0 ? (size_t)length : 0;
}

void segment_read_boot_id(char id[SEGMENT_BOOT_ID_MAX])
{
	memset(id, 0, SEGMENT_BOOT_ID_MAX);
	segment_read_line("/proc/sys/kernel/random/boot_id", id, SEGMENT_BOOT_ID_MAX - 1);
	id[strcspn(id, "\n")] = '\0';
}

bool segment_is_of_this_boot(const struct segment_header *header)
{
	char now[SEGMENT_BOOT_ID_MAX];
	segment_read_boot_id(now);
	return !now[0] || !header->boot_id[0] || strcmp(now, header->boot_id) == 0;
}

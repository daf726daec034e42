/* SPDX-License-Identifier: MIT */
/*
 * Memory cgroups. Rules: runs inside the user's process, perhaps on a small stack.
 *
 * The limits are read at each call, because they change and a sibling's memory counts, too. Where
 * the files lie is found again only when /proc/self/cgroup has changed: a machine may have
 * thousands of mounts.
 */
#include "core/base/cgroup.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/lock.h"

/* Version 1 says "no limit" by the largest number of whole pages. */
#define NO_LIMIT (UINT64_C(1) << 62)

/* One version's files. */
struct hierarchy {
	char cgroup[CGROUP_PATH];    /* of this process; "": it has none there */
	char directory[CGROUP_PATH]; /* its directory, or the nearest above that can be seen */
	size_t mount;                /* so many bytes of it are the mount point */
	size_t hidden;               /* so many bytes of the cgroup's path are the mount's root */
	bool is_mounted, is_exact;
};

enum { VERSION_1, VERSION_2, VERSIONS };

/* It is large, so it lies here and not on the caller's stack. */
static struct {
	LOCK_OF(LEAF) lock;
	uint64_t key; /* the hash of /proc/self/cgroup when the directories were found */
	struct hierarchy version[VERSIONS];
	char line[2048], path[CGROUP_PATH + 64];
} found = {.lock = LOCK_FREE};

/* --- files --- */

struct lines {
	int fd;
	size_t at, have;
	char buffer[512];
};

static bool lines_open(struct lines *lines, const char *root, const char *path)
{
	snprintf(found.path, sizeof found.path, "%s%s", root, path);
	lines->fd = open(found.path, O_RDONLY | O_CLOEXEC);
	lines->at = lines->have = 0;
	return lines->fd >= 0;
}

static int next_byte(struct lines *lines)
{
	if (lines->at == lines->have) {
		ssize_t n = read(lines->fd, lines->buffer, sizeof lines->buffer);

		if (n <= 0)
			return -1;
		lines->at = 0;
		lines->have = (size_t)n;
	}
	return (unsigned char)lines->buffer[lines->at++];
}

/* Reads the next line into found.line, cut where it is too long. Returns whether there was one. */
static bool lines_next(struct lines *lines)
{
	size_t length = 0;
	int c = next_byte(lines);

	if (c < 0)
		return false;
	for (; c >= 0 && c != '\n'; c = next_byte(lines))
		if (length < sizeof found.line - 1)
			found.line[length++] = (char)c;
	found.line[length] = '\0';
	return true;
}

/*
 * Reads the number in a file of a directory. Returns UINT64_MAX for no number, "max", or it cannot
 * be read.
 */
static uint64_t read_number(const char *directory, const char *name)
{
	char text[32];
	char *end;
	uint64_t value;
	ssize_t n;
	int fd;

	snprintf(found.path, sizeof found.path, "%s/%s", directory, name);
	fd = open(found.path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return UINT64_MAX;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0 || text[0] < '0' || text[0] > '9')
		return UINT64_MAX;
	text[n] = '\0';
	value = strtoull(text, &end, 10);
	return *end == '\n' || *end == '\0' ? value : UINT64_MAX;
}

/* --- where they lie --- */

/* Reads which cgroups the process is in. Returns the hash of the text. */
static uint64_t read_cgroups(const char *root)
{
	uint64_t key = hash_text(HASH_NOTHING, root);
	struct lines lines;

	for (int i = 0; i < VERSIONS; i++)
		found.version[i].cgroup[0] = '\0';
	if (!lines_open(&lines, root, "/proc/self/cgroup"))
		return key;
	while (lines_next(&lines)) {
		/* "4:cpu,memory:/path", or "0::/path" of version 2 */
		char *controllers = strchr(found.line, ':'), *path, *word, *rest;
		int version = VERSIONS;

		key = hash_text(key, found.line);
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		if (controllers[1] == '\0')
			version = VERSION_2;
		for (word = strtok_r(controllers + 1, ",", &rest); word;
		     word = strtok_r(NULL, ",", &rest))
			if (strcmp(word, "memory") == 0)
				version = VERSION_1;
		/* A path that does not fit could only be taken for another one. */
		if (version < VERSIONS && strlen(path) < CGROUP_PATH)
			memcpy(found.version[version].cgroup, path, strlen(path) + 1);
	}
	close(lines.fd);
	return key;
}

/* Undoes \040 and its like in a field of mountinfo. */
static void unescape(char *field)
{
	char *to = field;

	for (const char *from = field; *from; to++) {
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
		    from[2] <= '7' && from[3] >= '0' && from[3] <= '7') {
			*to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

static bool has_option(char *options, const char *option)
{
	char *rest;

	for (char *word = strtok_r(options, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
		if (strcmp(word, option) == 0)
			return true;
	return false;
}

/*
 * Takes a mount of a hierarchy if it shows more of the way to our cgroup than the known one. A path
 * that is not below the mount's root ("/../other" in a cgroup namespace) cannot be followed: the
 * mount point has to do.
 */
static void take_mount(struct hierarchy *h, const char *root, const char *top, const char *point)
{
	size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);
	bool exact = strncmp(h->cgroup, top, length) == 0 &&
	             (h->cgroup[length] == '/' || h->cgroup[length] == '\0') &&
	             strncmp(h->cgroup + length, "/..", 3) != 0;
	const char *below = exact ? h->cgroup + length : "";
	int n;

	if (!h->cgroup[0] || (h->is_mounted && (h->is_exact > exact ||
	                                        (h->is_exact == exact && h->hidden <= length))))
		return;
	if (strcmp(below, "/") == 0)
		below = "";
	if (strlen(root) + strlen(point) + strlen(below) >= sizeof h->directory)
		return;
	n = snprintf(h->directory, sizeof h->directory, "%s%s", root, point);
	h->mount = (size_t)n;
	memcpy(h->directory + n, below, strlen(below) + 1);
	h->hidden = length;
	h->is_exact = exact;
	h->is_mounted = true;
}

/* Reads a line like "36 35 98:0 /top /point rw,noatime shared:1 - type source options". */
static void read_mount(const char *root)
{
	char *field[5], *rest, *type, *options;

	type = strstr(found.line, " - ");
	if (!type)
		return;
	*type = '\0';
	type += 3;
	options = strchr(type, ' ');
	if (!options)
		return;
	*options++ = '\0';
	if (strcmp(type, "cgroup") != 0 && strcmp(type, "cgroup2") != 0)
		return;
	options = strchr(options, ' ');
	for (int i = 0; i < 5; i++) {
		field[i] = strtok_r(i ? NULL : found.line, " ", &rest);
		if (!field[i])
			return;
	}
	unescape(field[3]);
	unescape(field[4]);
	if (strcmp(type, "cgroup2") == 0)
		take_mount(&found.version[VERSION_2], root, field[3], field[4]);
	else if (options && has_option(options + 1, "memory"))
		take_mount(&found.version[VERSION_1], root, field[3], field[4]);
}

static void find_directories(const char *root)
{
	uint64_t key = read_cgroups(root);
	struct lines lines;

	if (key == found.key)
		return;
	found.key = 0;
	for (int i = 0; i < VERSIONS; i++)
		found.version[i].is_mounted = false;
	if (!lines_open(&lines, root, "/proc/self/mountinfo"))
		return;
	while (lines_next(&lines))
		read_mount(root);
	close(lines.fd);
	found.key = key;
}

/* --- one level --- */

/* Reads the bytes of file cache, which the kernel gives up before it kills a process. */
static uint64_t read_cache(const char *directory, const char *prefix)
{
	static const char *const kinds[] = {"inactive_file ", "active_file "};
	struct lines lines;
	uint64_t bytes = 0;

	if (!lines_open(&lines, directory, "/memory.stat"))
		return 0;
	while (lines_next(&lines)) {
		size_t length = strlen(prefix);

		if (strncmp(found.line, prefix, length) != 0)
			continue;
		for (int i = 0; i < 2; i++)
			if (strncmp(found.line + length, kinds[i], strlen(kinds[i])) == 0)
				bytes += strtoull(found.line + length + strlen(kinds[i]), NULL, 10);
	}
	close(lines.fd);
	return bytes;
}

static void read_level(int version, const char *directory, struct cgroup_memory *memory)
{
	bool first = version == VERSION_1;
	uint64_t used = read_number(directory, first ? "memory.usage_in_bytes" : "memory.current");
	uint64_t limit = read_number(directory, first ? "memory.limit_in_bytes" : "memory.max");
	uint64_t left, cache;

	if (!first) {
		/*
		 * Beyond memory.high no process is killed, but all are held up until hardly
		 * anything runs.
		 */
		uint64_t high = read_number(directory, "memory.high");

		if (high < limit)
			limit = high;
	}
	if (memory->used == UINT64_MAX)
		memory->used = used;
	if (limit >= NO_LIMIT)
		return;
	if (used == UINT64_MAX)
		used = 0;
	left = used < limit ? limit - used : 0;
	/*
	 * The kernel adds the cache up when it is asked, which takes time. It is asked only where
	 * the answer could matter.
	 */
	if (left >= memory->left)
		return;
	cache = read_cache(directory, first ? "total_" : "");
	used -= cache < used ? cache : used;
	left = used < limit ? limit - used : 0;
	if (left >= memory->left)
		return;
	memory->left = left;
	memory->limit = limit;
	memcpy(memory->tightest, directory, strlen(directory) + 1);
}

static void read_levels(int version, struct cgroup_memory *memory)
{
	struct hierarchy *h = &found.version[version];
	size_t length = strlen(h->directory);

	if (!h->is_mounted)
		return;
	for (;;) {
		char cut = h->directory[length];

		h->directory[length] = '\0';
		read_level(version, h->directory, memory);
		h->directory[length] = cut;
		if (length <= h->mount)
			break;
		do
			length--;
		while (length > h->mount && h->directory[length] != '/');
	}
}

/* --- a GPU's memory --- */

static struct cgroup_device *device_named(struct cgroup_device *all, int *count, const char *pci)
{
	for (int i = 0; i < *count; i++)
		if (strcasecmp(all[i].pci, pci) == 0)
			return &all[i];
	if (*count == CGROUP_DEVICES)
		return NULL;
	all[*count] = (struct cgroup_device){.hard = UINT64_MAX};
	snprintf(all[*count].pci, sizeof all->pci, "%s", pci);
	return &all[(*count)++];
}

/* Splits "nvidia/0000:3b:00.0/vidmem 64" or "drm/0000:03:00.0/vram0 max". */
static bool region_split(char *line, const char **pci, uint64_t *bytes)
{
	char *value = strrchr(line, ' '), *kind = strrchr(line, '/'), *name = strchr(line, '/');

	if (!value || !kind || name == kind ||
	    (strncmp(kind, "/vidmem", 7) != 0 && strncmp(kind, "/vram", 5) != 0) ||
	    kind - name > CGROUP_PCI)
		return false;
	*kind = '\0';
	*pci = name + 1;
	*bytes = strcmp(value + 1, "max") == 0 ? UINT64_MAX : strtoull(value + 1, NULL, 10);
	return true;
}

/* Reads one file of a level. Returns false where there is none. */
static bool read_regions(const char *directory, const char *name, struct cgroup_device *all,
                         int *count)
{
	struct lines lines;

	if (!lines_open(&lines, directory, name))
		return false;
	while (lines_next(&lines)) {
		struct cgroup_device *device;
		const char *pci;
		uint64_t bytes;

		if (!region_split(found.line, &pci, &bytes) ||
		    !(device = device_named(all, count, pci)))
			continue;
		if (strcmp(name, "/dmem.current") == 0) {
			device->used = bytes;
		} else if (strcmp(name, "/dmem.max") == 0 && bytes < device->hard) {
			device->hard = bytes;
			snprintf(device->hard_from, CGROUP_PATH, "%s", directory);
		} else if (strcmp(name, "/dmem.min") == 0 && bytes && !device->soft) {
			device->soft = bytes;
			snprintf(device->soft_from, CGROUP_PATH, "%s", directory);
		}
	}
	close(lines.fd);
	return true;
}

/* Reads all levels from a directory up to the mount point; 0: up to the root. */
static int read_device_levels(char *directory, size_t mount, struct cgroup_device *all)
{
	int count = 0;
	char *slash;

	read_regions(directory, "/dmem.current", all, &count);
	for (;;) {
		if (read_regions(directory, "/dmem.max", all, &count))
			read_regions(directory, "/dmem.min", all, &count);
		slash = strrchr(directory, '/');
		if (!slash || slash == directory || slash < directory + mount)
			return count;
		*slash = '\0';
	}
}

int cgroup_devices(const char *root, const char *leaf, struct cgroup_device all[CGROUP_DEVICES])
{
	struct hierarchy *h = &found.version[VERSION_2];
	char directory[CGROUP_PATH];
	int count = 0;

	lock_acquire(&found.lock);
	if (!leaf)
		find_directories(root);
	if (leaf || h->is_mounted) {
		snprintf(directory, sizeof directory, "%s", leaf ? leaf : h->directory);
		count = read_device_levels(directory, leaf ? 0 : h->mount, all);
	}
	lock_release(&found.lock);
	return count;
}

bool cgroup_own(const char *root, char directory[CGROUP_PATH])
{
	const struct hierarchy *h = &found.version[VERSION_2];
	bool is_mounted;

	lock_acquire(&found.lock);
	find_directories(root);
	is_mounted = h->is_mounted;
	if (is_mounted)
		memcpy(directory, h->directory, CGROUP_PATH);
	lock_release(&found.lock);
	return is_mounted;
}

void cgroup_memory(const char *root, struct cgroup_memory *memory)
{
	*memory =
	    (struct cgroup_memory){.left = UINT64_MAX, .limit = UINT64_MAX, .used = UINT64_MAX};
	lock_acquire(&found.lock);
	find_directories(root);
	for (int version = 0; version < VERSIONS; version++)
		read_levels(version, memory);
	lock_release(&found.lock);
}

/* --- the pod --- */

/* Takes a UID of 32 letters or, with dashes, 36. In systemd's names dashes are underscores. */
static void pod_take_uid(const char *from, struct cgroup_pod *pod)
{
	size_t length = strspn(from, "0123456789abcdef-_");

	if (length != 32 && length != 36)
		return;
	for (size_t i = 0; i < length; i++)
		pod->uid[i] = from[i] == '_' ? '-' : from[i];
	pod->uid[length] = '\0';
}

/*
 * Reads a cgroup such as ".../kubepods-burstable-podUID.slice/cri-containerd-ID.scope", or a mount
 * whose root is ".../pods/UID/containers/NAME/ID".
 */
static void pod_read_line(struct cgroup_pod *pod)
{
	const char *at = strstr(found.line, "/pods/"),
	           *name = at ? strstr(at, "/containers/") : NULL;
	size_t length;

	if (name) {
		pod_take_uid(at + strlen("/pods/"), pod);
		name += strlen("/containers/");
		length = strcspn(name, "/ ");
		if (name[length] == '/' && length < sizeof pod->container)
			snprintf(pod->container, sizeof pod->container, "%.*s", (int)length, name);
		return;
	}
	for (at = found.line; (at = strstr(at, "pod")); at += strlen("pod"))
		pod_take_uid(at + strlen("pod"), pod);
}

void cgroup_pod(const char *root, struct cgroup_pod *pod)
{
	static const char *const files[] = {"/proc/self/cgroup", "/proc/self/mountinfo"};
	struct lines lines;

	*pod = (struct cgroup_pod){.uid = ""};
	lock_acquire(&found.lock);
	for (int i = 0; i < 2; i++) {
		if (!lines_open(&lines, root, files[i]))
			continue;
		while (lines_next(&lines))
			pod_read_line(pod);
		close(lines.fd);
	}
	lock_release(&found.lock);
}

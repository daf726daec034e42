/*
 * The override file: merged, checked, and replaced by a rename.
 *
 * Writers take turns by a lock file; readers see the old file or the new one. Symlinks are refused.
 */
#include "core/base/clock.h"
#include "core/config/snapshot.h"

#include "core/base/deadline.h"
#include "core/base/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct entry {
	char *section;
	char *key;
	char *value; /* NULL: to be left out */
};

/* The entries of a file in order. */
struct table {
	struct entry *entries;
	size_t count;
};

static void free_table(struct table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		free(table->entries[i].section);
		free(table->entries[i].key);
		free(table->entries[i].value);
	}
	free(table->entries);
}

/* Inserts before index. */
static int insert(struct table *table, size_t index, const char *section, const char *key,
                  const char *value)
{
	struct entry entry = {strdup(section), strdup(key), strdup(value)};
	struct entry *entries =
	    reallocarray(table->entries, table->count + 1, sizeof(*table->entries));

	if (entries)
		table->entries = entries;
	if (!entries || !entry.section || !entry.key || !entry.value) {
		free(entry.section);
		free(entry.key);
		free(entry.value);
		return -ENOMEM;
	}
	memmove(&entries[index + 1], &entries[index], (table->count - index) * sizeof(*entries));
	entries[index] = entry;
	table->count++;
	return 0;
}

static int collect(void *cookie, const struct config_item *item, struct config_error *error)
{
	struct table *table = cookie;

	if (item->key && insert(table, table->count, item->section, item->key, item->value) != 0)
		return config_fail(error, -ENOMEM, item->place, "out of memory");
	return 0;
}

/* Returns whether two names are of one section, as "gpu GPU-5AC3" and "gpu GPU-5ac3" are. */
static bool same_section(const char *a, const char *b)
{
	struct config_selector first, second;
	const char *a_selector, *b_selector;

	if (!config_section_is_gpu(a, &a_selector) || !config_section_is_gpu(b, &b_selector))
		return strcmp(a, b) == 0;
	return config_selector_parse(a_selector, &first) == 0 &&
	       config_selector_parse(b_selector, &second) == 0 &&
	       config_selector_equal(&first, &second);
}

static int merge(struct table *table, const char *section, const char *key, const char *value)
{
	size_t after = table->count; /* the end of the section, or of the file */

	for (size_t i = 0; i < table->count; i++) {
		struct entry *entry = &table->entries[i];

		if (!same_section(entry->section, section))
			continue;
		after = i + 1;
		if (strcmp(entry->key, key) == 0) {
			char *copy = value ? strdup(value) : NULL;

			if (value && !copy)
				return -ENOMEM;
			free(entry->value);
			entry->value = copy;
			return 0;
		}
	}
	return value ? insert(table, after, section, key, value) : 0;
}

/*
 * Writes a remark that no other change has: who waits until processes follow compares what they
 * read. Of a limit that is set to what it was before, a process that has not seen the one in
 * between would count as following already.
 */
static void remark_on(char *remark, size_t size)
{
	uint64_t now = clock_of_day();

	snprintf(remark, size,
	         "# Written by Spillway (%" PRIu64 ".%09" PRIu64
	         ", %d): change it by `spillway set`.\n",
	         now / 1000000000, now % 1000000000, (int)getpid());
}

/* Renders the text of a file; NULL: no memory. (open_memstream() does not always say so.) */
static char *render(const struct table *table)
{
	char remark[128];
	size_t size = sizeof(remark);
	const char *section = NULL;
	char *text, *end;

	for (size_t i = 0; i < table->count; i++) {
		const struct entry *entry = &table->entries[i];

		if (entry->value)
			size += strlen(entry->section) + strlen(entry->key) + strlen(entry->value) +
			        sizeof("\n[]\n = \n");
	}
	text = malloc(size);
	if (!text)
		return NULL;
	remark_on(remark, sizeof(remark));
	end = stpcpy(text, remark);
	for (size_t i = 0; i < table->count; i++) {
		const struct entry *entry = &table->entries[i];

		if (!entry->value)
			continue;
		if (!section || !same_section(section, entry->section)) {
			section = entry->section;
			end += sprintf(end, "\n[%s]\n", section);
		}
		end += sprintf(end, "%s = %s\n", entry->key, entry->value);
	}
	return text;
}

/* Checks that what would be read back is what was meant; nothing else gets into the file. */
static int check(const char *path, const char *text, struct config_error *error)
{
	struct config *config = config_create();
	int status;

	if (!config)
		return config_fail(error, -ENOMEM, (struct config_place){path, 0}, "out of memory");
	status = config_add_text(config, LAYER_OVERRIDE, path, text, strlen(text), error);
	if (status == 0)
		status = config_check(config, error);
	config_release(config);
	return status;
}

static int write_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t written = write(fd, text, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		text += written;
		length -= (size_t)written;
	}
	return 0;
}

static int replace(const char *path, const char *text)
{
	char *temporary;
	int fd, status;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return -ENOMEM;
	fd = mkostemp(temporary, O_CLOEXEC);
	status = fd < 0 ? -errno : 0;
	if (fd >= 0) {
		status = fchmod(fd, 0600) != 0 ? -errno : write_all(fd, text, strlen(text));
		if (close(fd) != 0 && status == 0)
			status = -errno;
		if (status == 0 && rename(temporary, path) != 0)
			status = -errno;
		if (status != 0)
			unlink(temporary);
	}
	free(temporary);
	return status;
}

/* Takes the lock beside the file. Returns the descriptor that holds it, or a negative errno with
 * *error filled. */
static int take_lock(const char *path, struct deadline *deadline, struct config_error *error)
{
	char *name;
	int fd, status;

	if (asprintf(&name, "%s.lock", path) < 0)
		return -ENOMEM;
	fd = own_file_open(AT_FDCWD, name, O_RDWR | O_CREAT, 0600);
	status = fd < 0 ? fd : own_file_lock(fd, LOCK_EX, deadline);
	if (status != 0)
		config_fail(error, status, (struct config_place){name, 0},
		            "cannot be locked, so nothing is changed: %s", own_file_error(status));
	free(name);
	if (status != 0 && fd >= 0)
		close(fd);
	return status != 0 ? status : fd;
}

static int fail(struct config_error *error, const char *path, int status, const char *what)
{
	errno = -status;
	return config_fail(error, status, (struct config_place){path, 0}, "cannot %s it: %m", what);
}

static int merge_locked(const char *path, const char *section, const char *const *keys,
                        const char *const *values, struct table *table, struct config_error *error)
{
	char *text;
	size_t length;
	int status = config_file_load(path, false, &text, &length);

	if (status == 0) {
		status = config_read(path, text, length, collect, table, error);
		free(text);
		if (status != 0)
			return status;
	} else if (status != -ENOENT) {
		return fail(error, path, status, "read");
	}
	for (size_t i = 0; keys[i]; i++)
		if ((status = merge(table, section, keys[i], values[i])) != 0)
			return fail(error, path, status, "change");
	text = render(table);
	if (!text)
		return fail(error, path, -ENOMEM, "change");
	status = check(path, text, error);
	if (status == 0 && (status = replace(path, text)) != 0)
		fail(error, path, status, "write");
	free(text);
	return status;
}

/* Checks that no line becomes two; check() finds the rest. */
static int check_arguments(const char *path, const char *selector, const char *const *keys,
                           const char *const *values, struct config_error *error)
{
	struct config_place place = {path, 0};
	struct config_selector parsed;

	if (config_selector_parse(selector, &parsed) != 0)
		return config_fail(error, -EINVAL, place,
		                   "[gpu %s]: expected an ordinal, a UUID or a PCI bus id",
		                   selector);
	for (size_t i = 0; keys[i]; i++)
		if (strpbrk(keys[i], "\r\n;#=:[") || (values[i] && strpbrk(values[i], "\r\n;")))
			return config_fail(error, -EINVAL, place,
			                   "%s = %s: expected one plain key and value", keys[i],
			                   values[i] ? values[i] : "");
	return 0;
}

int config_override_write(const char *path, const char *selector, const char *const *keys,
                          const char *const *values, struct deadline *deadline,
                          struct config_error *error)
{
	struct table table = {0};
	char section[CONFIG_SECTION_MAX + 8];
	int lock, status;

	status = check_arguments(path, selector, keys, values, error);
	if (status != 0)
		return status;
	snprintf(section, sizeof(section), "gpu%s%s", *selector ? " " : "", selector);
	lock = take_lock(path, deadline, error);
	if (lock < 0)
		return lock;
	status = merge_locked(path, section, keys, values, &table, error);
	free_table(&table);
	close(lock);
	return status;
}

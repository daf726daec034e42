/* SPDX-License-Identifier: MIT */
/*
 * The override file: merged, checked, and replaced by a rename.
 *
 * Writers take turns by a lock file; readers see the old file or the new one. Symlinks are refused.
 */
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

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/hash.h"
#include "core/base/own_file.h"
#include "core/base/units.h"
#include "core/config/listener.h"
#include "core/config/snapshot.h"

struct config_cause config_cause;

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
static int override_insert(struct table *table, size_t index, const char *section, const char *key,
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

static int override_write_all(int fd, const char *text, size_t length)
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

/*
 * Replaces a file by a rename, mode 0600. Returns 0 or a negative errno; the old one stands then.
 */
static int override_replace(const char *path, const char *text, size_t length)
{
	char *temporary;
	int fd, status;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return -ENOMEM;
	fd = mkostemp(temporary, O_CLOEXEC);
	status = fd < 0 ? -errno : 0;
	if (fd >= 0) {
		status = fchmod(fd, 0600) != 0 ? -errno : override_write_all(fd, text, length);
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

static int override_collect(void *cookie, const struct config_item *item,
                            struct config_error *error)
{
	struct table *table = cookie;

	if (item->key &&
	    override_insert(table, table->count, item->section, item->key, item->value) != 0)
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

/* Returns whether two words are of one key, as memory and memory_limit are. */
static bool is_same_key(const char *a, const char *b)
{
	enum config_key key = config_find_key(a);

	return strcmp(a, b) == 0 || (key != CONFIG_KEY_COUNT && key == config_find_key(b));
}

static int merge(struct table *table, const char *section, const char *key, const char *value)
{
	size_t after = table->count; /* the end of the section, or of the file */

	for (size_t i = 0; i < table->count; i++) {
		struct entry *entry = &table->entries[i];

		if (!same_section(entry->section, section))
			continue;
		after = i + 1;
		if (is_same_key(entry->key, key)) {
			char *copy = value ? strdup(value) : NULL, *spelling = strdup(key);

			if ((value && !copy) || !spelling) {
				free(copy);
				free(spelling);
				return -ENOMEM;
			}
			free(entry->key);
			free(entry->value);
			entry->key = spelling;
			entry->value = copy;
			return 0;
		}
	}
	return value ? override_insert(table, after, section, key, value) : 0;
}

/*
 * Writes a remark that no other change has: a command that waits until processes follow compares
 * the texts they have read. Of a limit that is set to its earlier value, a process that has not
 * seen the one in between would count as following already.
 */
static void remark_on(char *remark, size_t size)
{
	uint64_t now = clock_of_day();

	snprintf(remark, size,
	         "# Written by Spillway (%" PRIu64 ".%09" PRIu64
	         ", %d, %u, %u): change it by `spillway set`.\n",
	         now / 1000000000, now % 1000000000, (int)getpid(), config_cause.through,
	         config_cause.by);
}

/* Reads the cause out of that remark. A text of an earlier version has none. */
struct config_cause override_read_cause(const char *text)
{
	struct config_cause cause = {0};

	sscanf(text, "# Written by Spillway (%*u.%*u, %*d, %u, %u)", &cause.through, &cause.by);
	return cause;
}

/* Renders the text of a file; NULL: no memory. (open_memstream() does not always say so.) */
static char *render(const struct table *table)
{
	char remark[128];
	size_t size = sizeof(remark) + sizeof(LISTENER_WHOLE);
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
	strcpy(end, LISTENER_WHOLE);
	return text;
}

/* Checks that the text reads back with the same meaning; nothing else gets into the file. */
static int override_check(const char *path, const char *text, const struct config_device *devices,
                          size_t device_count, struct config_error *error)
{
	struct config *config = config_create();
	int status;

	if (!config)
		return config_fail(error, -ENOMEM, (struct config_place){path, 0}, "out of memory");
	status = config_add_text(config, LAYER_OVERRIDE, path, text, strlen(text), error);
	if (status == 0)
		status = config_check(config, error);
	if (status == 0 && devices)
		status = config_check_devices(config, devices, device_count, error);
	config_release(config);
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

static int override_fail(struct config_error *error, const char *path, int status, const char *what)
{
	errno = -status;
	return config_fail(error, status, (struct config_place){path, 0}, "cannot %s it: %m", what);
}

/* Merges into the text of the file. Returns the text that is to stand there, or NULL. */
static char *merge_text(const struct config_change *change, const char *before, size_t length,
                        int *status, struct config_error *error)
{
	char section[CONFIG_SECTION_MAX + 8];
	struct table table = {0};
	char *text = NULL;

	snprintf(section, sizeof(section), "gpu%s%s", *change->selector ? " " : "",
	         change->selector);
	*status =
	    before ? config_read(change->path, before, length, override_collect, &table, error) : 0;
	for (size_t i = 0; *status == 0 && change->keys[i]; i++)
		if ((*status = merge(&table, section, change->keys[i], change->values[i])) != 0)
			override_fail(error, change->path, *status, "change");
	if (*status == 0 && !(text = render(&table)))
		*status = override_fail(error, change->path, -ENOMEM, "change");
	free_table(&table);
	return text;
}

static int change_locked(struct config_change *change, struct config_error *error)
{
	char *before = NULL, *text;
	size_t length = 0;
	int status = config_file_load(change->path, false, &before, &length);

	if (status != 0 && status != -ENOENT)
		return override_fail(error, change->path, status, "read");
	text = merge_text(change, before, length, &status, error);
	if (status == 0)
		status = override_check(change->path, text, change->devices, change->device_count,
		                        error);
	if (status == 0 && (status = override_replace(change->path, text, strlen(text))) != 0)
		override_fail(error, change->path, status, "write");
	if (status == 0) {
		change->before = before;
		change->before_length = length;
		change->hash = hash_bytes(HASH_NOTHING, text, strlen(text));
		before = NULL;
	}
	free(before);
	free(text);
	return status;
}

/* Checks that no line becomes two; override_check() finds the rest. */
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

int config_override_change(struct config_change *change, struct deadline *deadline,
                           struct config_error *error)
{
	int lock, status;

	change->before = NULL;
	status =
	    check_arguments(change->path, change->selector, change->keys, change->values, error);
	if (status != 0)
		return status;
	lock = take_lock(change->path, deadline, error);
	if (lock < 0)
		return lock;
	status = change_locked(change, error);
	close(lock);
	return status;
}

int config_override_write(const char *path, const char *selector, const char *const *keys,
                          const char *const *values, struct deadline *deadline,
                          struct config_error *error)
{
	struct config_change change = {
	    .path = path, .selector = selector, .keys = keys, .values = values};
	int status = config_override_change(&change, deadline, error);

	free(change.before);
	return status;
}

/* Returns whether the file is still as the change left it. */
static bool is_as_changed(const struct config_change *change)
{
	char *text;
	size_t length;
	bool is_same;

	if (config_file_load(change->path, false, &text, &length) != 0)
		return false;
	is_same = hash_bytes(HASH_NOTHING, text, length) == change->hash;
	free(text);
	return is_same;
}

int config_override_take_back(const struct config_change *change, struct deadline *deadline,
                              struct config_error *error)
{
	int lock = take_lock(change->path, deadline, error), status = 0;

	if (lock < 0)
		return lock;
	if (!is_as_changed(change))
		status = config_fail(error, -EBUSY, (struct config_place){change->path, 0},
		                     "changed by another process meanwhile, so that the change "
		                     "stays in it");
	else if (change->before)
		status = override_replace(change->path, change->before, change->before_length);
	else if (unlink(change->path) != 0)
		status = -errno;
	if (status != 0 && status != -EBUSY)
		override_fail(error, change->path, status, "restore");
	close(lock);
	return status;
}

/* Returns whether a line is "turn = exclusive", for processes that know its old spelling alone. */
static bool is_line_of_later_value(const char *line, uint32_t version)
{
	const char *value = line + strcspn(line, "=:\n");

	if (version > CONFIG_OLD_EXCLUSIVE_VERSION || strncmp(line, "turn", 4) != 0 || !*value)
		return false;
	value += 1 + strspn(value + 1, " \t");
	return strncasecmp(value, "exclusive", 9) == 0;
}

/* Returns whether a line is "key = ..." of a key, or in a spelling, that came after the version. */
static bool is_line_of_later_key(const char *line, uint32_t version)
{
	for (int key = 0; key < CONFIG_KEY_COUNT; key++) {
		const char *name = config_key_name((enum config_key)key);
		bool is_later = config_key_since((enum config_key)key) > version ||
		                strcmp(name, config_key_name_for((enum config_key)key, version));
		size_t length = strlen(name);

		if (is_later && strncmp(line, name, length) == 0 && strchr(" \t=:", line[length]))
			return true;
	}
	return false;
}

/* Finds the first line that processes of the version refuse; 0: there is none. */
static int find_bad_line(const char *path, const char *text, size_t length, uint32_t version,
                         struct config_error *error)
{
	int number = 1;

	error->line = 0;
	if (strlen(text) == length && override_check(path, text, NULL, 0, error) != 0)
		return error->line > 0 ? error->line : -1;
	for (const char *line = text; line; number++) {
		if (is_line_of_later_key(line, version) || is_line_of_later_value(line, version)) {
			config_fail(error, -EINVAL, (struct config_place){path, number},
			            "%.*s: not known to that version", (int)strcspn(line, "\r\n"),
			            line);
			return number;
		}
		line = strchr(line, '\n');
		line += line != NULL;
	}
	return 0;
}

/*
 * Makes a line a comment, of plain text and of a length that every version reads. Returns the new
 * text, or NULL.
 */
static char *comment_out(const char *text, int number)
{
	enum { LONGEST = 150 };
	const char *line = text, *end;
	int length;
	char *mended, *c;

	while (--number > 0 && strchr(line, '\n'))
		line = strchr(line, '\n') + 1;
	end = line + strcspn(line, "\n");
	length = end - line > LONGEST ? LONGEST : (int)(end - line);
	if (asprintf(&mended, "%.*s# %.*s%s", (int)(line - text), text, length, line, end) < 0)
		return NULL;
	c = mended + (line - text);
	for (int i = 0; i < length + 2; i++)
		c[i] = (unsigned char)c[i] < ' ' ? ' ' : c[i];
	return mended;
}

/* Mends a text, and frees it where it becomes another. Returns how many lines were bad, or a
 * negative errno. */
static int mend_text(const char *path, char **text, size_t lines, uint32_t version,
                     struct config_error *first)
{
	struct config_error error;
	int count = 0, bad;

	while ((bad = find_bad_line(path, *text, strlen(*text), version, &error)) > 0 &&
	       count <= (int)lines) {
		char *mended = comment_out(*text, bad);

		if (!mended)
			return override_fail(first, path, -ENOMEM, "mend");
		free(*text);
		*text = mended;
		if (count++ == 0)
			*first = error;
	}
	if (bad != 0 && count == 0)
		*first = error;
	return bad == 0 ? count : -EINVAL;
}

static int mend_locked(const char *path, uint32_t version, struct config_error *error)
{
	char *text = NULL;
	size_t length = 0, lines = 1;
	int status = config_file_load(path, false, &text, &length), count;

	if (status == -ENOENT)
		return 0;
	if (status != 0)
		return override_fail(error, path, status, "read");
	for (size_t i = 0; i < length; i++) {
		text[i] = text[i] ? text[i] : '?';
		lines += text[i] == '\n';
	}
	count = mend_text(path, &text, lines, version, error);
	if (count > 0 && (status = override_replace(path, text, strlen(text))) != 0)
		count = override_fail(error, path, status, "write");
	free(text);
	return count;
}

int config_override_mend(const char *path, uint32_t version, struct deadline *deadline,
                         struct config_error *error)
{
	int lock = take_lock(path, deadline, error), count;

	if (lock < 0)
		return lock;
	count = mend_locked(path, version, error);
	close(lock);
	return count;
}

/*
 * A job's pause: a file of its own, so that no error in the override file can undo it. The file's
 * existence is the pause. Its text names the user, the time and the boot, for people and for the
 * next life of the job.
 */

static void pause_copy(char *to, size_t size, const char *value)
{
	snprintf(to, size, "%s", value);
}

static int pause_take(void *cookie, const struct config_item *item, struct config_error *error)
{
	struct config_pause *pause = cookie;

	(void)error;
	if (!item->key)
		return 0;
	if (strcmp(item->key, "evict") == 0)
		(void)units_parse_bool(item->value, &pause->evict);
	else if (strcmp(item->key, "by") == 0)
		pause_copy(pause->by, sizeof(pause->by), item->value);
	else if (strcmp(item->key, "boot") == 0)
		pause_copy(pause->boot_id, sizeof(pause->boot_id), item->value);
	else if (strcmp(item->key, "since") == 0)
		pause->since_ns = strtoull(item->value, NULL, 10);
	else if (strcmp(item->key, "at") == 0)
		pause->at_ns = strtoull(item->value, NULL, 10);
	return 0;
}

void config_pause_read(const char *path, const char *boot_id, struct config_pause *pause)
{
	struct config_error error;
	char *text;
	size_t length;

	memset(pause, 0, sizeof(*pause));
	if (config_file_load(path, false, &text, &length) != 0)
		return;
	(void)config_read(path, text, length, pause_take, pause, &error);
	pause->is_on = !*boot_id || !pause->boot_id[0] || strcmp(pause->boot_id, boot_id) == 0;
	if (pause->is_on)
		pause->hash = hash_bytes(HASH_NOTHING, text, length);
	free(text);
}

int config_pause_write(const char *path, const struct config_pause *pause)
{
	char text[512];
	int length = snprintf(text, sizeof(text),
	                      "# Written by spillway pause; spillway resume removes it.\n"
	                      "[pause]\nevict = %s\nby = %s\nsince = %" PRIu64 "\nat = %" PRIu64
	                      "\nboot = %s\n" LISTENER_WHOLE,
	                      pause->evict ? "yes" : "no", pause->by, pause->since_ns, pause->at_ns,
	                      pause->boot_id);

	return override_replace(path, text, (size_t)length);
}

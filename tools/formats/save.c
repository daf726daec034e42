/* SPDX-License-Identifier: MIT */
/* Writing a job's limits into an INI file, keeping the user's own lines. */
#include "tools/formats/save.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/config/config.h"
#include "tools/formats/shares.h"
#include "tools/formats/output.h"
#include "tools/view/ini_file.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"

/* The file, line by line, each with its end. */
struct lines {
	char **line;
	int count;
};

struct save {
	struct lines lines;
	const struct shares *paused; /* NULL: the job is not paused */
};

static void save_insert(struct lines *lines, int before, char *line)
{
	lines->line = grow(lines->line, lines->count, sizeof *lines->line);
	for (int i = lines->count++; i > before; i--)
		lines->line[i] = lines->line[i - 1];
	lines->line[before] = line;
}

static bool save_read_lines(struct lines *lines, const struct target *target)
{
	FILE *in = output_read(target);
	char *line = NULL;
	size_t size = 0;

	if (!in)
		return false;
	while (getline(&line, &size, in) > 0)
		save_insert(lines, lines->count, text("%s", line));
	free(line);
	fclose(in);
	return true;
}

/* Returns the end of a line: "\r\n" where the file has it. */
static const char *line_end(const struct lines *lines)
{
	return lines->count && strstr(lines->line[0], "\r\n") ? "\r\n" : "\n";
}

/* Ends a last line that has no end, before something is put after it. */
static void end_last_line(struct lines *lines)
{
	char **last = lines->count ? &lines->line[lines->count - 1] : NULL;
	char *whole;

	if (!last || strchr(*last, '\n'))
		return;
	whole = text("%s%s", *last, line_end(lines));
	free(*last);
	*last = whole;
}

/* Returns the line without the byte order mark that a first line may have. */
static const char *save_plain(const char *line)
{
	return strncmp(line, "\xef\xbb\xbf", 3) == 0 ? line + 3 : line;
}

static bool is_heading(const char *line)
{
	return *save_plain(line) == '[';
}

static bool is_heading_of(const char *line, const char *section)
{
	size_t length = strlen(section);

	line = save_plain(line);
	return strncasecmp(line + 1, section, length) == 0 && line[1 + length] == ']';
}

/*
 * Returns whether it sets the key, in any of its spellings; *at says where its value begins and
 * *length how long it is.
 */
static bool is_setting(const char *line, const char *key, size_t *at, size_t *length)
{
	const char *begin = save_plain(line), *value, *end;
	size_t name = strcspn(begin, "=:");
	bool is_key;
	char *word;

	if (!begin[name])
		return false;
	value = begin + name + 1 + strspn(begin + name + 1, " \t");
	while (name > 0 && strchr(" \t", begin[name - 1]))
		name--;
	word = text("%.*s", (int)name, begin);
	is_key = strcmp(word, key) == 0 || (config_find_key(key) != CONFIG_KEY_COUNT &&
	                                    config_find_key(word) == config_find_key(key));
	free(word);
	if (!is_key)
		return false;
	/* a comment begins with a ';' after white space */
	end = value + strcspn(value, "\r\n");
	for (const char *c = value; c < end; c++)
		if (*c == ';' && strchr(" \t", c[-1]))
			end = c;
	while (end > value && strchr(" \t", end[-1]))
		end--;
	*at = (size_t)(value - line);
	*length = (size_t)(end - value);
	return true;
}

static void replace_value(char **line, size_t at, size_t length, const char *value)
{
	char *replaced = text("%.*s%s%s", (int)at, *line, value, *line + at + length);

	free(*line);
	*line = replaced;
}

static bool is_blank_or_comment(const char *line)
{
	return strchr("\r\n;#", line[strspn(line, " \t")]);
}

/*
 * Puts the setting in its place, else at the end of its section, else in a section of its own at
 * the end.
 */
static void save_put(struct lines *lines, const char *section, const char *key, const char *value)
{
	bool ours = false;
	int last = -1; /* line of the section that a new key goes after */
	size_t at, length;

	for (int i = 0; i < lines->count; i++) {
		if (is_heading(lines->line[i]))
			ours = is_heading_of(lines->line[i], section);
		if (ours && is_setting(lines->line[i], key, &at, &length)) {
			replace_value(&lines->line[i], at, length, value);
			return;
		}
		if (ours && !is_blank_or_comment(lines->line[i]))
			last = i;
	}
	end_last_line(lines);
	if (last < 0) {
		if (lines->count)
			save_insert(lines, lines->count, text("%s", line_end(lines)));
		save_insert(lines, lines->count, text("[%s]%s", section, line_end(lines)));
		last = lines->count - 1;
	}
	save_insert(lines, last + 1, text("%s = %s%s", key, value, line_end(lines)));
}

/* Takes a key of the override file, as inih's handler. */
static int save_take(void *cookie, const char *section, const char *key, const char *value)
{
	struct save *save = cookie;
	const enum config_key of = config_find_key(key);
	bool is_set_aside = save->paused && (strcmp(key, config_key_name(CONFIG_KEY_share)) == 0 ||
	                                     strcmp(key, config_key_name(CONFIG_KEY_evict)) == 0);

	if (!is_set_aside)
		save_put(&save->lines, section, of == CONFIG_KEY_COUNT ? key : config_key_name(of),
		         value);
	return 1;
}

static void take_set_aside(struct save *save)
{
	for (int i = 0; save->paused && i < save->paused->count; i++) {
		char *section = ini_section(save->paused->of[i].selector);

		save_put(&save->lines, section, config_key_name(CONFIG_KEY_share),
		         save->paused->of[i].value);
		free(section);
	}
}

/*
 * Returns whether the configuration takes the file at path; a complaint names the file that it is,
 * or is going to be.
 */
static bool can_be_read(const char *path, const char *file)
{
	const struct config_sources sources = {.file = path};
	struct config *config = NULL;
	struct config_error error;
	bool valid = config_load(&sources, &config, &error) == 0;

	if (!valid && path == file)
		complain("%s", error.message);
	else if (!valid)
		complain("%s: left as it is: with these limits it would be wrong: %s", file,
		         error.message);
	config_release(config);
	return valid;
}

static void put_lines(const struct lines *lines, FILE *out)
{
	for (int i = 0; i < lines->count; i++)
		fputs(lines->line[i], out);
}

/* Returns whether the lines could be read as configuration, by a draft in memory. */
static bool would_be_read(const struct lines *lines, const char *file)
{
	int memory = memfd_create("settings", MFD_CLOEXEC);
	FILE *draft = memory < 0 ? NULL : fdopen(memory, "w");
	char path[64];
	bool valid;

	if (!draft) {
		complain("%s: no memory to check it in first: %s", file, strerror(errno));
		return false;
	}
	put_lines(lines, draft);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(draft));
	valid = fflush(draft) == 0 && can_be_read(path, file);
	fclose(draft);
	return valid;
}

static bool write_lines(const struct lines *lines, const char *file, mode_t mode)
{
	struct output output;

	if (!would_be_read(lines, file) || !output_begin(&output, file, mode))
		return false;
	put_lines(lines, output.out);
	return output_end(&output);
}

static bool save_into(struct save *save, const char *override_file, const char *file, mode_t mode)
{
	bool done;

	ini_read(override_file, save_take, save); /* a job that was given no limits has none */
	take_set_aside(save);
	done = write_lines(&save->lines, file, mode);
	for (int i = 0; i < save->lines.count; i++)
		free(save->lines.line[i]);
	free(save->lines.line);
	return done;
}

bool save_limits(const char *job, const char *override_file, const char *file)
{
	struct save save = {0};
	struct shares paused;
	char *aside = jobs_file(job, "paused");
	struct target target;
	bool found = output_find(file, &target), done = false;

	if (shares_read(aside, &paused))
		save.paused = &paused;
	free(aside);
	if (!found)
		return false;
	if (target.kind != TARGET_FILE)
		return save_into(&save, override_file, file, 0644);
	if (can_be_read(target.path, target.path) && save_read_lines(&save.lines, &target))
		done = save_into(&save, override_file, file, target.mode & 0777);
	return done;
}

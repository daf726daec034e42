/* SPDX-License-Identifier: MIT */
/* The shares that stand in an override file. */
#include "tools/formats/shares.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/own_file.h"
#include "tools/formats/replace.h"
#include "tools/view/ini_file.h"
#include "tools/view/tool.h"

static int shares_collect(void *cookie, const char *section, const char *name, const char *value)
{
	const char *selector = ini_selector(section);

	if (selector && strcmp(name, "share") == 0)
		shares_set(cookie, selector, value);
	return 1;
}

bool shares_read(const char *path, struct shares *shares)
{
	int line;

	*shares = (struct shares){0};
	line = ini_read(path, shares_collect, shares);
	if (line == -ENOENT)
		return false;
	if (line < 0)
		fail("%s: %s", path, own_file_error(line));
	if (line > 0)
		fail("%s:%d: expected KEY = VALUE or [SECTION]", path, line);
	return true;
}

bool shares_peek(const char *path, struct shares *shares)
{
	*shares = (struct shares){0};
	return ini_read(path, shares_collect, shares) >= 0;
}

const char *shares_get(const struct shares *shares, const char *selector)
{
	for (int i = 0; i < shares->count; i++)
		if (strcmp(shares->of[i].selector, selector) == 0)
			return shares->of[i].value;
	return NULL;
}

void shares_set(struct shares *shares, const char *selector, const char *value)
{
	int i = 0;

	while (i < shares->count && strcmp(shares->of[i].selector, selector) != 0)
		i++;
	if (i == shares->count && shares->count++ == SHARES_MAX)
		fail("shares for more than %d GPUs", SHARES_MAX);
	snprintf(shares->of[i].selector, sizeof shares->of[i].selector, "%s", selector);
	snprintf(shares->of[i].value, sizeof shares->of[i].value, "%s", value);
}

bool shares_write(const char *path, const struct shares *shares)
{
	struct replace file;

	if (!replace_begin(&file, path, 0600))
		return false;
	for (int i = 0; i < shares->count; i++) {
		char *section = ini_section(shares->of[i].selector);

		fprintf(file.out, "[%s]\nshare = %s\n", section, shares->of[i].value);
		free(section);
	}
	return replace_end(&file);
}

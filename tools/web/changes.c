/* SPDX-License-Identifier: MIT */
/* The latest changes by the page. */
#include "tools/web/changes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "tools/view/tool.h"

enum { CHANGES = 64 };

static struct change {
	uint64_t at_ns;
	char *command, *job, *said;
	bool failed;
} changes[CHANGES];
static size_t changes_count; /* since the beginning */

void changes_add(const char *line, const char *said, bool failed)
{
	static const char before_job[] = " -- ";
	struct change *change = &changes[changes_count++ % CHANGES];
	const char *job = strstr(line, before_job);
	size_t length = job ? (size_t)(job - line) : strlen(line);

	free(change->command);
	free(change->job);
	free(change->said);
	*change = (struct change){
	    .at_ns = clock_of_day(),
	    .command = text("%.*s", (int)length, line),
	    .job = text("%s", job ? job + sizeof before_job - 1 : ""),
	    .said = text("%.*s", (int)strcspn(said, "\n"), said),
	    .failed = failed,
	};
}

/* Compares names, and the tokens as far as both have one. */
static bool changes_is_of(const struct change *change, const char *job)
{
	size_t name = strcspn(job, "@");

	if (strncmp(change->job, job, name) != 0 || !strchr("@", change->job[name]))
		return false;
	return !job[name] || !change->job[name] || strcmp(change->job + name, job + name) == 0;
}

void changes_list(const char *job, struct json *json)
{
	size_t held = changes_count < CHANGES ? changes_count : CHANGES;

	for (size_t i = changes_count - held; i < changes_count; i++) {
		const struct change *change = &changes[i % CHANGES];

		if (!changes_is_of(change, job))
			continue;
		json_open_document(json);
		json_number(json, "time_ns", change->at_ns);
		json_text(json, "job", change->job);
		json_text(json, "event", "change");
		json_text(json, "through", "page");
		json_text(json, "command", change->command);
		json_text(json, "said", change->said);
		json_bool(json, "failed", change->failed);
		json_close(json, '}');
	}
}

/* SPDX-License-Identifier: MIT */
/* spillway run: the summary at the end. */
#include "tools/cli/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/config/config.h"
#include "core/ledger/refused.h"
#include "tools/formats/json.h"
#include "tools/formats/refused.h"
#include "tools/formats/value.h"
#include "tools/view/tool.h"

/* Sums the job's figures up over its GPUs; a time of a step, and a share, are no sums. */
static struct statistics summary_sum(const struct segment_view *view)
{
	struct statistics total = {0};
	uint64_t most_steps = 0;

	for (int i = 0; i < view->device_count; i++) {
		const struct statistics *of = &view->job_total[i];

#define X(name, how, unit, meaning) total.name += of->name;
		STATISTICS(X)
#undef X
		total.share_set = of->share_set;
		if (of->steps >= most_steps) {
			most_steps = of->steps;
			total.step_ns = of->step_ns;
		}
	}
	return total;
}

static bool is_one_share(const struct segment_view *view)
{
	for (int i = 1; i < view->device_count; i++)
		if (view->job_total[i].share_set != view->job_total[0].share_set)
			return false;
	return true;
}

/* Limits, summed over the GPUs; CONFIG_UNLIMITED: a GPU has none. */
struct summary_limits {
	uint64_t last, most; /* most: the highest of the run */
};

static uint64_t summary_add(uint64_t sum, uint64_t limit)
{
	return sum == CONFIG_UNLIMITED || limit == CONFIG_UNLIMITED ? CONFIG_UNLIMITED
	                                                            : sum + limit;
}

static struct summary_limits summary_limits_of(const struct segment_view *view)
{
	struct summary_limits limits = {0};

	for (int i = 0; i < view->device_count; i++) {
		uint64_t last = view->job_total[i].limit_set, most = view->limit_most[i];

		limits.last = summary_add(limits.last, last);
		limits.most = summary_add(limits.most, most > last ? most : last);
	}
	return view->device_count ? limits
	                          : (struct summary_limits){CONFIG_UNLIMITED, CONFIG_UNLIMITED};
}

/*
 * Says the limit that the peak is to be compared with. The peak may be from a time with a higher
 * limit than the last one: then both are printed. A peak above the limit is explained where the
 * driver's own memory is the reason.
 */
static void say_limits(FILE *out, const struct summary_limits *limits,
                       const struct statistics *total)
{
	bool is_driver_above = total->device_peak > limits->most &&
	                       total->device_peak - limits->most <= total->driver_peak;
	const char *above = is_driver_above ? ", which the driver's own may exceed" : "";
	char most[32], last[32];

	units_format_size(limits->most, most, sizeof most);
	units_format_size(limits->last, last, sizeof last);
	if (limits->last == CONFIG_UNLIMITED)
		return;
	if (limits->most == limits->last)
		fprintf(out, " (limit %s%s)", last, above);
	else
		fprintf(out, " (limit %s%s, %s at the end)",
		        limits->most == CONFIG_UNLIMITED ? "none" : most, above, last);
}

/*
 * Returns why the job was refused last where its process has warned of it on standard error; else
 * REFUSED_NOTHING.
 */
static enum refusal_reason summary_warned(const struct segment_view *view)
{
	const char *log = getenv("SPILLWAY_LOG");
	/* ":FILE" in SPILLWAY_LOG has the warning written to that file. */
	bool is_there = !log || (!strchr(log, ':') && strcmp(log, "off") && strcmp(log, "error"));
	int device = refused_device(view);
	enum refusal_reason reason = REFUSED_NOTHING;

	if (device >= 0 && is_there)
		reason = (enum refusal_reason)view->job_total[device].refused_reason;
	return refused_is_warned(reason) ? reason : REFUSED_NOTHING;
}

static void say_refusals(FILE *out, uint64_t refusals, enum refusal_reason warned)
{
	if (!refusals)
		return;
	fprintf(out, "; %" PRIu64 " allocation%s refused", refusals,
	        refusals == 1 ? " was" : "s were");
	if (warned)
		fprintf(out, "%s: %s", refusals == 1 ? "" : ", the latest",
		        refused_because(warned));
}

static void say_memory(FILE *out, const struct statistics *total,
                       const struct summary_limits *limits)
{
	char size[32];

	fprintf(out, "GPU at most %s", units_format_size(total->device_peak, size, sizeof size));
	refused_driver_s(out, total->driver_peak);
	say_limits(out, limits, total);
	if (total->host_peak)
		fprintf(out, ", host at most %s",
		        units_format_size(total->host_peak, size, sizeof size));
	if (total->demoted_bytes || total->promoted_bytes)
		fprintf(out, "; %s moved between them",
		        units_format_size(total->demoted_bytes + total->promoted_bytes, size,
		                          sizeof size));
}

static void say_time(FILE *out, const struct segment_view *view, const struct statistics *total)
{
	char time[32], share[32];

	if (total->idle_ns)
		fprintf(out, "; launches waited %s",
		        units_format_duration(total->idle_ns, time, sizeof time));
	if (total->idle_ns && total->share_set == 0 && is_one_share(view))
		fprintf(out, ", paused at the end");
	else if (total->idle_ns && total->share_set < 100000 && is_one_share(view))
		fprintf(out, " to keep to the share of %s",
		        value_share(total->share_set, share, sizeof share));
	if (total->steps)
		fprintf(out, "; %" PRIu64 " step%s%s", total->steps, total->steps == 1 ? "" : "s",
		        counter_steps_are_all(total) ? "" : " seen,");
	if (total->steps && total->step_ns)
		fprintf(out, " of %s", units_format_duration(total->step_ns, time, sizeof time));
}

/* Prints why the job was refused last, and the remedy, unless a warning has named it. */
static void say_refused(const struct segment_view *view)
{
	int device = refused_device(view);
	char text[400];

	if (device >= 0 && !summary_warned(view))
		complain("%s: gpu %d: %s%s", view->job, device,
		         view->job_total[device].refusals > 1 ? "the latest: " : "",
		         refused_latest(&view->job_total[device], text, sizeof text));
}

static FILE *open_line(char **line, size_t *size)
{
	FILE *out = open_memstream(line, size);

	if (!out)
		fail("out of memory");
	return out;
}

void summary_say(const struct segment_view *view, bool is_named)
{
	const struct summary_limits limits = summary_limits_of(view);
	struct statistics total = summary_sum(view);
	char *line = NULL;
	size_t size;
	FILE *out;

	if (!is_named && !total.spilled_bytes && !total.demoted_bytes && !total.idle_ns &&
	    !total.refusals)
		return;
	out = open_line(&line, &size);
	say_memory(out, &total, &limits);
	say_refusals(out, total.refusals, summary_warned(view));
	say_time(out, view, &total);
	fclose(out);
	complain("%s: %s", view->job, line);
	free(line);
	say_refused(view);
}

/* Adds why the job was refused last; null: it never was. */
static void json_refused(struct json *json, const struct segment_view *view)
{
	int device = refused_device(view);
	char text[400];

	if (device < 0)
		json_null(json, "refused");
	else
		json_text(json, "refused",
		          refused_latest(&view->job_total[device], text, sizeof text));
}

void summary_json(const struct segment_view *view)
{
	struct statistics total = summary_sum(view);
	char *line = NULL;
	size_t size;
	struct json json = {.out = open_line(&line, &size)};

	json_open_document(&json);
	json_text(&json, "job", view->job);
#define X(name) json_number(&json, #name, total.name);
	X(device_peak)
	X(host_peak)
	X(spills)
	X(spilled_bytes)
	X(refusals)
	X(idle_ns)
	X(idle_slots)
	X(busy_ns)
	X(launches)
	X(demoted_bytes)
	X(promoted_bytes)
	X(steps)
	X(driver_peak)
#undef X
	json_refused(&json, view);
	json_close(&json, '}');
	fputc('\n', json.out);
	fclose(json.out);
	log_write(STDERR_FILENO, line, strlen(line));
	free(line);
}

/* SPDX-License-Identifier: MIT */
/* Sharing by need, as text and as JSON. */
#include "tools/formats/report_sharing.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/formats/table.h"
#include "tools/view/sharing.h"

static void cell_bytes(struct table *table, const struct sharing_seen *seen, uint64_t bytes)
{
	char size[32];

	table_cell(table, "%s",
	           seen->tells_memory ? units_format_size(bytes, size, sizeof size) : "-");
}

/* Names the turn of a job: how it takes turns, and how it stands with exclusive ones. */
static const char *turn_word(const struct sharing_seen *seen)
{
	return seen->turn == TURN_EXCLUSIVE ? gang_state_name(seen->turn_state) : "fine";
}

static void row(struct table *table, int device, const struct sharing_seen *seen)
{
	table_cell(table, "%d", device);
	table_cell(table, "%s", sharing_priority_word(seen->priority));
	table_cell(table, "%s", turn_word(seen));
	table_cell(table, "%d", seen->others);
	table_cell(table, "%s", seen->is_idle ? "yes" : "no");
	cell_bytes(table, seen, seen->entitled);
	cell_bytes(table, seen, seen->lent);
	cell_bytes(table, seen, seen->borrowed);
	cell_bytes(table, seen, seen->claimed);
}

static void report_sharing_explain(int device, const struct sharing_seen *seen)
{
	if (seen->waits)
		printf("gpu %d: memory on the host waits to return: %s\n", device,
		       claim_wait_text(seen->waits));
	if (seen->turn == TURN_EXCLUSIVE && seen->turn_why)
		printf("gpu %d: turns are fine: %s\n", device, gang_why_text(seen->turn_why));
	else if (seen->turn_of)
		printf("gpu %d: process %d has the exclusive turn\n", device, seen->turn_of);
}

static void cell_percent(struct table *table, bool is_known, double ppm)
{
	if (is_known)
		table_cell(table, "%.1f%%", ppm / 1e4);
	else
		table_cell(table, "-");
}

static void cell_speed(struct table *table, bool is_known, uint64_t in_1000_s)
{
	if (is_known)
		table_cell(table, "%.1f", (double)in_1000_s / 1e3);
	else
		table_cell(table, "-");
}

/* Prints what jobs keep of their speed beside those that fill their gaps, and what these take. */
static void print_speeds(const struct sharing_seen *seen, int count)
{
	static const char *const headings[] = {"GPU", "ALONE/S", "NOW/S", "LOSS",
	                                       "+-",  "TAKES",   NULL};
	struct table table;
	bool is_any = false;

	for (int i = 0; i < count; i++)
		is_any |= seen[i].is_measured || seen[i].takes_ppm;
	if (!is_any)
		return;
	printf("\n");
	table_start(&table, headings);
	for (int i = 0; i < count; i++) {
		if (!seen[i].is_measured && !seen[i].takes_ppm)
			continue;
		table_cell(&table, "%d", i);
		cell_speed(&table, seen[i].is_measured, seen[i].speed_alone);
		cell_speed(&table, seen[i].is_measured, seen[i].speed_now);
		cell_percent(&table, seen[i].is_measured, seen[i].loss_ppm);
		cell_percent(&table, seen[i].is_measured, seen[i].loss_error_ppm);
		cell_percent(&table, seen[i].takes_ppm, seen[i].takes_ppm);
	}
	table_end(&table, stdout);
}

void report_sharing(const struct segment_view *view)
{
	static const char *const headings[] = {"GPU",     "<PRIORITY", "<TURN", "BESIDE",
	                                       "<IDLE",   "ENTITLED",  "LENT",  "BORROWED",
	                                       "CLAIMED", NULL};
	struct sharing_seen seen[SEGMENT_DEVICES];
	struct table table;
	bool is_any = false;

	for (int i = 0; i < view->device_count; i++) {
		sharing_see(view, i, &seen[i]);
		is_any |= seen[i].peers && seen[i].others;
	}
	if (!is_any)
		return;
	printf("\n");
	table_start(&table, headings);
	table.folds = true;
	for (int i = 0; i < view->device_count; i++)
		if (seen[i].peers)
			row(&table, i, &seen[i]);
	table_end(&table, stdout);
	for (int i = 0; i < view->device_count; i++)
		if (seen[i].peers)
			report_sharing_explain(i, &seen[i]);
	print_speeds(seen, view->device_count);
}

/* Adds a number that is known or null. */
static void json_known(struct json *json, const char *key, bool is_known, int64_t value)
{
	if (is_known)
		json_integer(json, key, value);
	else
		json_null(json, key);
}

void report_sharing_json(struct json *json, const struct segment_view *view, int device)
{
	struct sharing_seen seen;

	sharing_see(view, device, &seen);
	if (!seen.peers) {
		json_null(json, "sharing");
		return;
	}
	json_open(json, "sharing", '{');
	json_text(json, "priority", sharing_priority_word(seen.priority));
	json_text(json, "turn", seen.turn == TURN_EXCLUSIVE ? "exclusive" : "fine");
	json_text(json, "turn_state", gang_state_name(seen.turn_state));
	json_text(json, "turn_why", gang_why_text(seen.turn_why));
	json_number(json, "turn_process", (uint64_t)seen.turn_of);
	json_number(json, "beside", (uint64_t)seen.others);
	json_text(json, "idle", !seen.tells_memory ? "unknown" : seen.is_idle ? "yes" : "no");
	json_number(json, "entitled", seen.entitled);
	json_number(json, "lent", seen.lent);
	json_number(json, "borrowed", seen.borrowed);
	json_number(json, "claimed", seen.claimed);
	json_text(json, "waits", claim_wait_name(seen.waits));
	json_known(json, "launches_alone", seen.is_measured, (int64_t)seen.speed_alone);
	json_known(json, "launches_now", seen.is_measured, (int64_t)seen.speed_now);
	json_known(json, "loss", seen.is_measured, seen.loss_ppm);
	json_known(json, "loss_error", seen.is_measured, seen.loss_error_ppm);
	json_known(json, "takes", seen.takes_ppm, seen.takes_ppm);
	json_close(json, '}');
}

/* Sharing by need, as text and as JSON. */
#include "tools/formats/report_sharing.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/formats/table.h"
#include "tools/view/sharing.h"

static const char *const priorities[] = {
    [PRIORITY_OPPORTUNISTIC] = "opportunistic",
    [PRIORITY_NORMAL] = "normal",
    [PRIORITY_GUARANTEED] = "guaranteed",
};

static void cell_bytes(struct table *table, const struct sharing_seen *seen, uint64_t bytes)
{
	char size[32];

	table_cell(table, "%s",
	           seen->tells_memory ? units_format_size(bytes, size, sizeof size) : "-");
}

/* Names the turn of a job: how it takes turns, and how it stands with whole ones. */
static const char *turn_word(const struct sharing_seen *seen)
{
	return seen->turn == TURN_WHOLE ? gang_state_name(seen->turn_state) : "fine";
}

static void row(struct table *table, int device, const struct sharing_seen *seen)
{
	table_cell(table, "%d", device);
	table_cell(table, "%s", priorities[seen->priority]);
	table_cell(table, "%s", turn_word(seen));
	table_cell(table, "%d", seen->others);
	table_cell(table, "%s", seen->is_idle ? "yes" : "no");
	cell_bytes(table, seen, seen->entitled);
	cell_bytes(table, seen, seen->lent);
	cell_bytes(table, seen, seen->borrowed);
	cell_bytes(table, seen, seen->claimed);
}

static void explain(int device, const struct sharing_seen *seen)
{
	if (seen->waits)
		printf("gpu %d: what is on the host waits: %s\n", device,
		       claim_wait_text(seen->waits));
	if (seen->turn == TURN_WHOLE && seen->turn_why)
		printf("gpu %d: turns are fine: %s\n", device, gang_why_text(seen->turn_why));
	else if (seen->turn_of)
		printf("gpu %d: process %d has the whole turn\n", device, seen->turn_of);
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
		is_any |= seen[i].cards && seen[i].others;
	}
	if (!is_any)
		return;
	printf("\n");
	table_start(&table, headings);
	table.folds = true;
	for (int i = 0; i < view->device_count; i++)
		if (seen[i].cards)
			row(&table, i, &seen[i]);
	table_end(&table, stdout);
	for (int i = 0; i < view->device_count; i++)
		if (seen[i].cards)
			explain(i, &seen[i]);
}

void report_sharing_json(struct json *json, const struct segment_view *view, int device)
{
	struct sharing_seen seen;

	sharing_see(view, device, &seen);
	if (!seen.cards) {
		json_null(json, "sharing");
		return;
	}
	json_open(json, "sharing", '{');
	json_text(json, "priority", priorities[seen.priority]);
	json_text(json, "turn", seen.turn == TURN_WHOLE ? "whole" : "fine");
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
	json_close(json, '}');
}

/* SPDX-License-Identifier: MIT */
/* spillway top: the GPUs that running jobs use, of this user and of the node. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/top/top.h"
#include "tools/view/counters.h"
#include "tools/view/node.h"
#include "tools/view/rows.h"
#include "tools/view/tool.h"

static struct top_gpu *top_gpus_find(struct top_gpus *gpus, const struct row *row)
{
	for (int i = 0; i < gpus->count; i++)
		if (strcmp(gpus->gpu[i].device.uuid, row->device.uuid) == 0)
			return &gpus->gpu[i];
	gpus->gpu = grow(gpus->gpu, gpus->count, sizeof *gpus->gpu);
	gpus->gpu[gpus->count] = (struct top_gpu){.device = row->device, .index = row->gpu};
	return &gpus->gpu[gpus->count++];
}

static void top_gpus_add(struct top_gpus *gpus, const struct row *row, const char *user)
{
	struct top_gpu *gpu;

	if (row->gpu < 0 || !row->running)
		return;
	gpu = top_gpus_find(gpus, row);
	gpu->jobs++;
	if (gpu->index != row->gpu)
		gpu->index = -1;
	if (strcmp(row->user, user) == 0)
		gpu->mine += row->charged[SEGMENT_ON_DEVICE];
	else
		gpu->others += row->charged[SEGMENT_ON_DEVICE];
	if (row->is_of_page || !counter_held_is_known(&row->total))
		return;
	gpu->busy += row->total.share_held;
	gpu->busy_is_known = true;
}

/* Jobs number GPUs in their own ways; a number that two GPUs have says nothing. */
static void drop_common_numbers(struct top_gpus *gpus)
{
	for (int i = 0; i < gpus->count; i++) {
		bool is_common = false;

		for (int j = i + 1; j < gpus->count; j++) {
			if (gpus->gpu[i].index < 0 || gpus->gpu[j].index != gpus->gpu[i].index)
				continue;
			gpus->gpu[j].index = -1;
			is_common = true;
		}
		if (is_common)
			gpus->gpu[i].index = -1;
	}
}

static int by_bus(const void *a, const void *b)
{
	const struct top_gpu *one = a, *other = b;
	int result = strcmp(one->device.pci_bus_id, other->device.pci_bus_id);

	return result ? result : strcmp(one->device.uuid, other->device.uuid);
}

static void say_nothing(const char *line)
{
	(void)line;
}

void top_gpus_read(struct top_gpus *gpus)
{
	void (*said_to)(const char *line) = complain_to;
	char user[NODE_USER_MAX];
	struct rows rows;

	*gpus = (struct top_gpus){0};
	complain_to = say_nothing; /* top's table of jobs names those that cannot be read */
	rows_read(&rows, NULL);
	complain_to = said_to;
	node_user(geteuid(), user, sizeof user);
	for (int i = 0; i < rows.count; i++)
		top_gpus_add(gpus, &rows.row[i], user);
	rows_free(&rows);
	drop_common_numbers(gpus);
	if (gpus->count)
		qsort(gpus->gpu, (size_t)gpus->count, sizeof *gpus->gpu, by_bus);
}

void top_gpus_free(struct top_gpus *gpus)
{
	free(gpus->gpu);
	*gpus = (struct top_gpus){0};
}

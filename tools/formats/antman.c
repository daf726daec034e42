/* SPDX-License-Identifier: MIT */
/*
 * AntMan's GPU_STATUS_FILE, for schedulers that read it (core/pages/status.h). Names and meanings
 * as in AntMan's source (TensorFlow 1.15 port,
 * tensorflow/contrib/resource_management/gpu_statistics.{h,cc}).
 */
#include "tools/formats/formats.h"

#include <string.h>

#include "core/pages/status.h"

static void antman_add(struct status *status, const struct row *row)
{
	const struct statistics *total = &row->total;
	struct status_device *device;

	if (row->gpu < 0 || status->count == SEGMENT_DEVICES)
		return;
	device = &status->device[status->count++];
	memcpy(device->pci_bus_id, row->device.pci_bus_id, sizeof device->pci_bus_id);
	memcpy(device->charged, row->charged, sizeof device->charged);
	device->used[SEGMENT_ON_DEVICE] = total->device_used;
	device->used[SEGMENT_ON_HOST] = total->host_used;
	device->peak[SEGMENT_ON_DEVICE] = total->device_peak;
	device->peak[SEGMENT_ON_HOST] = total->host_peak;
	device->has_spilled = total->spill_reason != SPILL_NONE;
	device->step_ns = total->step_ns;
}

void format_antman(FILE *out, const struct rows *rows)
{
	struct status status = {0};
	char text[STATUS_TEXT_MAX] = "";
	size_t length;

	for (int i = 0; i < rows->count; i++)
		antman_add(&status, &rows->row[i]);
	length = status_format(&status, text);
	fwrite(text, 1, length, out);
}

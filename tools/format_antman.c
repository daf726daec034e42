/*
 * AntMan's GPU_STATUS_FILE, for schedulers that read it. Names and meanings as in AntMan's source
 * (TensorFlow 1.15 port, tensorflow/contrib/resource_management/gpu_statistics.{h,cc}).
 */
#include "tools/formats.h"

#include <ctype.h>
#include <string.h>

#include "tools/json.h"

/* "0000:3B:00.0" without its domain and in lower case, as AntMan names a GPU. */
static void short_pci_bus_id(const char *id, char *name, size_t size)
{
	const char *colon = strchr(id, ':');
	bool has_domain = colon && strchr(colon + 1, ':');

	snprintf(name, size, "%s", has_domain ? colon + 1 : id);
	for (char *c = name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
}

static void put_device(struct json *json, const struct row *row)
{
	const struct statistics *total = &row->total;
	char name[sizeof row->device.pci_bus_id];

	short_pci_bus_id(row->device.pci_bus_id, name, sizeof name);
	json_open(json, name, '{');
	json_number(json, "deviceMemUsedMax", total->device_peak);
	json_number(json, "deviceMemUsedMin", total->device_used);
	json_number(json, "deviceMemPoolSize", row->charged[SEGMENT_ON_DEVICE]);
	json_number(json, "deviceMemStable", total->device_used);
	json_number(json, "hostMemUsedMax", total->host_peak);
	json_number(json, "hostMemUsedMin", total->host_used);
	json_number(json, "hostMemPoolSize", row->charged[SEGMENT_ON_HOST]);
	json_text(json, "swapReason", total->spill_reason == SPILL_NONE ? "" : "OOM");
	json_integer(json, "deviceMemUsedNvidia", -1);
	json_close(json, '}');
}

void format_antman(FILE *out, const struct rows *rows)
{
	struct json json = {.out = out};

	json_open(&json, NULL, '{');
	json_open(&json, "gpuUsageInfo", '{');
	for (int i = 0; i < rows->count; i++)
		if (rows->row[i].gpu >= 0)
			put_device(&json, &rows->row[i]);
	json_close(&json, '}');
	json_close(&json, '}');
	putc('\n', out);
}

/* SPDX-License-Identifier: MIT */
/* Which GPUs a selector names. */
#include "tools/view/selectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/view/ini_file.h"
#include "tools/view/tool.h"

int selectors_devices(const struct segment_view *view, struct config_device device[SEGMENT_DEVICES])
{
	for (int i = 0; i < view->device_count; i++) {
		device[i] = (struct config_device){.ordinal = i};
		snprintf(device[i].uuid, sizeof device[i].uuid, "%s", view->device[i].uuid);
		snprintf(device[i].pci_bus_id, sizeof device[i].pci_bus_id, "%s",
		         view->device[i].pci_bus_id);
	}
	return view->device_count;
}

bool selectors_name_any(const char *selector, const struct config_device *device, int count)
{
	for (int i = 0; i < count; i++)
		if (config_check_selector(selector, &device[i]) == 0)
			return true;
	return false;
}

char *selectors_list(const struct config_device *device, int count)
{
	char *list = text("%s", "");

	for (int i = 0; i < count; i++) {
		char *longer = text("%s%s%d (%s, %s)", list, i ? ", " : "", i, device[i].uuid,
		                    device[i].pci_bus_id);

		free(list);
		list = longer;
	}
	return list;
}

struct check {
	const char *path;
	const struct config_device *device;
	int count;
	void (*idle)(const char *path, const char *selector);
	char last[64]; /* the section being read */
};

static int selectors_see(void *cookie, const char *section, const char *key, const char *value)
{
	struct check *check = cookie;
	const char *selector = ini_selector(section);

	(void)key;
	(void)value;
	if (!selector || strcmp(section, check->last) == 0)
		return 1;
	snprintf(check->last, sizeof check->last, "%s", section);
	if (!selectors_name_any(selector, check->device, check->count))
		check->idle(check->path, selector);
	return 1;
}

void selectors_check(const char *path, const struct config_device *device, int count,
                     void (*idle)(const char *path, const char *selector))
{
	struct check check = {.path = path, .device = device, .count = count, .idle = idle};

	ini_read(path, selectors_see,
	         &check); /* faults of the file are reported by the processes that obey it */
}

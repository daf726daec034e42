/* SPDX-License-Identifier: MIT */
/* Programs without Spillway, for stat. */
#include "tools/formats/report_unmanaged.h"

#include <stdio.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/view/unmanaged.h"

void report_unmanaged(void)
{
	struct unmanaged unmanaged = {0};
	char size[32];

	if (!config_machine()->enforces)
		return;
	unmanaged_look_twice(&unmanaged);
	for (int i = 0; i < unmanaged.count; i++) {
		const struct unmanaged_process *process = &unmanaged.process[i];

		printf("without Spillway, so beyond every limit: process %d of %s (%s) holds %s of "
		       "%s\n",
		       (int)process->pid, process->user, process->command,
		       process->bytes == UINT64_MAX
		           ? "memory"
		           : units_format_size(process->bytes, size, sizeof size),
		       process->uuid);
	}
	if (!unmanaged.is_known)
		puts("programs without Spillway: not known: NVML does not list those on the GPUs");
	else if (unmanaged.not_judged)
		printf("programs without Spillway: not known of %d processes on the GPUs\n",
		       unmanaged.not_judged);
	unmanaged_free(&unmanaged);
}

static void unmanaged_json(struct json *json, const struct unmanaged *unmanaged)
{
	if (!unmanaged->is_known) {
		json_null(json, "without_spillway");
		return;
	}
	json_open(json, "without_spillway", '{');
	json_number(json, "not_judged", (uint64_t)unmanaged->not_judged);
	json_open(json, "processes", '[');
	for (int i = 0; i < unmanaged->count; i++) {
		const struct unmanaged_process *process = &unmanaged->process[i];

		json_open(json, NULL, '{');
		json_number(json, "pid", (uint64_t)process->pid);
		json_text(json, "user", process->user);
		json_number(json, "uid", process->owner);
		json_text(json, "command", process->command);
		json_text(json, "uuid", process->uuid);
		if (process->bytes == UINT64_MAX)
			json_null(json, "device_used");
		else
			json_number(json, "device_used", process->bytes);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_close(json, '}');
}

void report_unmanaged_json(struct json *json, struct unmanaged *unmanaged)
{
	struct unmanaged own = {0};

	if (unmanaged && config_machine()->enforces)
		unmanaged_look(unmanaged);
	else if (config_machine()->enforces)
		unmanaged_look_twice(&own);
	unmanaged_json(json, unmanaged ? unmanaged : &own);
	unmanaged_free(&own);
}

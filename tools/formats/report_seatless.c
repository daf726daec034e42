/* SPDX-License-Identifier: MIT */
/* Programs without Spillway, for stat. */
#include "tools/formats/report_seatless.h"

#include <stdio.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/view/seatless.h"

void report_seatless(void)
{
	struct seatless seatless = {0};
	char size[32];

	if (!config_machine()->enforces)
		return;
	seatless_look_twice(&seatless);
	for (int i = 0; i < seatless.count; i++) {
		const struct seatless_process *process = &seatless.process[i];

		printf("without Spillway, so beyond every limit: process %d of %s (%s) holds %s of "
		       "%s\n",
		       (int)process->pid, process->user, process->command,
		       process->bytes == UINT64_MAX
		           ? "memory"
		           : units_format_size(process->bytes, size, sizeof size),
		       process->uuid);
	}
	if (!seatless.is_known)
		puts("programs without Spillway: not known: NVML does not list those on the GPUs");
	else if (seatless.not_judged)
		printf("programs without Spillway: not known of %d processes on the GPUs\n",
		       seatless.not_judged);
	seatless_free(&seatless);
}

static void seatless_json(struct json *json, const struct seatless *seatless)
{
	if (!seatless->is_known) {
		json_null(json, "without_spillway");
		return;
	}
	json_open(json, "without_spillway", '{');
	json_number(json, "not_judged", (uint64_t)seatless->not_judged);
	json_open(json, "processes", '[');
	for (int i = 0; i < seatless->count; i++) {
		const struct seatless_process *process = &seatless->process[i];

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

void report_seatless_json(struct json *json, struct seatless *seatless)
{
	struct seatless own = {0};

	if (seatless && config_machine()->enforces)
		seatless_look(seatless);
	else if (config_machine()->enforces)
		seatless_look_twice(&own);
	seatless_json(json, seatless ? seatless : &own);
	seatless_free(&own);
}

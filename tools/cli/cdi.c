/* SPDX-License-Identifier: MIT */
/*
 * spillway cdi: a CDI specification, by which podman, Docker, containerd and CRI-O put Spillway and
 * limits into a container that asks for a device of this name.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config/config.h"
#include "core/state/directory.h"
#include "core/modules/vgpu/hami_mode.h"
#include "tools/cli/commands.h"
#include "tools/doctor/paths.h"
#include "tools/formats/json.h"
#include "tools/view/arguments.h"
#include "tools/view/tool.h"

/* The oldest version with all that we need: an old reader reads it, too. */
#define CDI_VERSION "0.5.0"
#define CDI_KIND    "spillway.dev/gpu"

static struct sold {
	char *name, *memory, *share; /* share NULL: all of the time */
} * devices;
static int device_count;

/* Checks a value as an INI would have it, or ends the tool. */
static void check_value(enum config_key key, const char *text, const char *option)
{
	char why[128];

	if (config_check_value(key, text, why, sizeof why) != 0)
		usage_error("--device %s: %s", option, why);
}

static void cdi_check_name(const char *name, const char *option)
{
	static const char ends[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	size_t length = strlen(name);

	if (length == 0 || strspn(name, ends) == 0 || !strchr(ends, name[length - 1]) ||
	    name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")])
		usage_error("--device %s: expected a name of letters, digits and, not at its ends, "
		            "'_', '.' or '-'",
		            option);
	for (int i = 0; i < device_count; i++)
		if (strcmp(devices[i].name, name) == 0)
			usage_error("--device %s: '%s' is given twice", option, name);
}

/* Takes NAME=MEMORY[:SHARE]. */
static void take_device(const struct argument *argument, const char *value)
{
	struct sold device = {.name = text("%s", value)};
	size_t length = strcspn(value, "=");
	char *colon = strrchr(device.name, ':');

	(void)argument;
	if (device.name[length] == '\0')
		usage_error("--device %s: expected NAME=MEMORY or NAME=MEMORY:SHARE", value);
	device.name[length] = '\0';
	device.memory = device.name + length + 1;
	if (colon && colon > device.memory) {
		*colon = '\0';
		device.share = colon + 1;
		check_value(CONFIG_KEY_share, device.share, value);
	}
	cdi_check_name(device.name, value);
	check_value(CONFIG_KEY_memory, device.memory, value);
	devices = grow(devices, device_count, sizeof *devices);
	devices[device_count++] = device;
}

static void print_mount(struct json *json, const char *host, const char *container,
                        const char *access)
{
	json_open(json, NULL, '{');
	json_text(json, "hostPath", host);
	json_text(json, "containerPath", container);
	json_open(json, "options", '[');
	json_text(json, NULL, access);
	json_text(json, NULL, "nosuid");
	json_text(json, NULL, "nodev");
	json_text(json, NULL, "bind");
	json_close(json, ']');
	json_close(json, '}');
}

static void cdi_print_device(struct json *json, const struct sold *device)
{
	char *memory = text("SPILLWAY_MEMORY=%s", device->memory);
	char *share = device->share ? text("SPILLWAY_SHARE=%s", device->share) : NULL;

	json_open(json, NULL, '{');
	json_text(json, "name", device->name);
	json_open(json, "containerEdits", '{');
	json_open(json, "env", '[');
	json_text(json, NULL, memory);
	if (share)
		json_text(json, NULL, share);
	json_text(json, NULL, HAMI_MODE_MARK);
	json_close(json, ']');
	json_close(json, '}');
	json_close(json, '}');
	free(memory);
	free(share);
}

/* Prints the edits of each device: the libraries, their list, and the node's directory. */
static void print_edits(struct json *json, const char *folder, const char *preload)
{
	char node[DIRECTORY_MAX + 1];

	directory_of_node(node, sizeof node);
	json_open(json, "containerEdits", '{');
	json_open(json, "mounts", '[');
	print_mount(json, folder, folder, "ro");
	print_mount(json, preload, "/etc/ld.so.preload", "ro");
	if (access(node, R_OK | X_OK) == 0)
		print_mount(json, node, DIRECTORY_NODE, "rw");
	else
		complain("%s: %s; jobs in containers take no turns and are not seen from here",
		         node, "there is no such directory");
	json_close(json, ']');
	json_close(json, '}');
}

static void print_specification(const char *folder, const char *preload)
{
	struct json json = {.out = stdout};

	json_open(&json, NULL, '{');
	json_text(&json, "cdiVersion", CDI_VERSION);
	json_text(&json, "kind", CDI_KIND);
	json_open(&json, "devices", '[');
	for (int i = 0; i < device_count; i++)
		cdi_print_device(&json, &devices[i]);
	json_close(&json, ']');
	print_edits(&json, folder, preload);
	json_close(&json, '}');
	puts("");
}

int command_cdi(int argc, char **argv)
{
	static const struct argument options[] = {
	    {"device", 'd', "DEVICE",
	     "NAME=MEMORY[:SHARE]: a device of this name, its limit on memory, its share of the "
	     "time; "
	     "may be given again",
	     take_device, NULL},
	    {NULL, 0, NULL, NULL, NULL, NULL},
	};
	const struct command_line line = {
	    .command = "spillway cdi",
	    .operands = "",
	    .about = "Print a CDI specification: what a container gets that asks for one of these "
	             "devices.\vWithout --device there are two: half=50%:50 and quarter=25%:25.",
	    .options = options,
	};
	struct paths paths;
	char why[512], *folder, *preload;

	if (arguments_read(&line, argc, argv)[0])
		usage_error("expected no operands");
	if (!device_count) {
		take_device(NULL, "half=50%:50");
		take_device(NULL, "quarter=25%:25");
	}
	if (!paths_shim(&paths, why, sizeof why))
		fail("%s", why);
	folder = text("%s", paths.shim);
	*strrchr(folder, '/') = '\0';
	preload = text("%s/ld.so.preload", folder);
	if (access(preload, R_OK) != 0)
		fail("%s: %s", preload, "cannot be read; it is made by make install");
	print_specification(folder, preload);
	free(folder);
	free(preload);
	return TOOL_OK;
}

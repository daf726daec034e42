/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: settings, which are read as text: INI files, the environment, sizes, other values.
 *
 * Input: the first byte says which, the rest is the text; of an environment its variables, each
 * ended by a newline. Nothing may crash. A refused text leaves its output alone. An accepted one is
 * accepted again as it is written.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "core/config/snapshot.h"
#include "tests/fuzz/fuzz.h"

static const struct config_device device = {
    .ordinal = 0, .uuid = "GPU-5ac30000", .pci_bus_id = "0000:3b:00.0", .memory = 1 << 30};

static void use(struct config *config)
{
	struct config_error error;
	struct config_gpu settings;
	char value[64];

	if (config_check(config, &error) != 0)
		return;
	config_for_device(config, &device, &settings);
	if (settings.memory_max && settings.memory_max < settings.memory)
		abort();
	if (settings.share > 100000)
		abort();
	for (int key = 0; key < CONFIG_KEY_COUNT; key++) {
		const char *written = config_written(config, &device, (enum config_key)key);

		if (!config_origin(config, &device, (enum config_key)key))
			abort();
		/* Of bare numbers only HAMi's variables and old overrides are taken, in bytes. */
		if (written && !units_is_bare(written) &&
		    config_check_value((enum config_key)key, written, value, sizeof value) != 0)
			abort();
	}
}

static void read_ini(const char *text, size_t length)
{
	static const enum config_layer layers[] = {LAYER_SYSTEM, LAYER_FILE, LAYER_OVERRIDE};

	for (size_t i = 0; i < 3; i++) {
		struct config *config = config_create();
		struct config_error error = {.message = ""};

		if (!config)
			abort();
		if (config_add_text(config, layers[i], "fuzz.ini", text, length, &error) == 0)
			use(config);
		else if (!error.message[0])
			abort();
		config_release(config);
	}
}

static void read_environment(char *text)
{
	char *variable[17] = {NULL};
	struct config *config = config_create();
	struct config_error error = {.message = ""};
	int count = 0;

	for (char *end; count < 16 && (end = strchr(text, '\n')); text = end + 1) {
		*end = '\0';
		variable[count++] = text;
	}
	if (!config)
		abort();
	if (config_add_environment(config, variable, &error) == 0)
		use(config);
	else if (!error.message[0])
		abort();
	config_release(config);
}

static void read_value(const char *text)
{
	uint64_t bytes = 12345, again, count = 12345, ns = 12345;
	double percent = 12345;
	char written[32];
	bool flag;

	if (units_parse_size(text, &bytes) != 0 && bytes != 12345)
		abort();
	if (units_parse_count(text, &count) != 0 && count != 12345)
		abort();
	if (units_parse_duration(text, &ns) != 0 && ns != 12345)
		abort();
	if (units_parse_percent(text, &percent) != 0
	        ? percent < 12345 || percent > 12345
	        : isnan(percent) || percent < 0 || percent > 100)
		abort();
	(void)units_parse_bool(text, &flag);
	/* to three digits */
	units_format_size(bytes, written, sizeof written);
	if (units_parse_size(written, &again) == 0 &&
	    (again > bytes ? again - bytes : bytes - again) > bytes / 100)
		abort();
	units_format_duration(ns, written, sizeof written);
	if (strlen(written) >= sizeof written)
		abort();
}

static void text_run(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return;
	text = malloc(size);
	if (!text)
		return;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0] % 3) {
	case 0:
		read_ini(text, size - 1);
		break;
	case 1:
		read_environment(text);
		break;
	default:
		read_value(text);
	}
	free(text);
}

static const char *const good_text[3][3] = {
    {"[job]\nname = bert\nlabels = a=b\nnvml = no\nstatus_file = /a\n[gpu]\nmemory = "
     "8GiB\nshare = 50%\n"
     "[gpu GPU-5ac3]\nmemory_max = 90%\n[gpu 0]\nspill = vmm ; why\n",
     "[gpu 0000:3b:00.0]\nshare_window=1s\nhost_memory = unlimited\n# remark\n[ceiling]\nshare = "
     "30\n",
     "\xef\xbb\xbf[gpu]\r\nevict = yes\r\n  indented = 1\n"},
    {"SPILLWAY_MEMORY=4G\nSPILLWAY_SHARE_1=30\nSPILLWAY_JOB=x\n",
     "CUDA_DEVICE_MEMORY_LIMIT_0=1024m\nCUDA_DEVICE_SM_LIMIT=30\nGPU_CORE_UTILIZATION_POLICY="
     "force\n",
     "SPILLWAY_DISABLE=no\nSPILLWAY_LABELS=a=b,c=d\nSPILLWAY_STATUS_FILE=/a/b\nSPILLWAY_MEMRY=1\n"},
    {"1.5 GiB", "17179869183.99T", "0.000000000000000001Ki"},
};

static size_t text_of(uint8_t input[FUZZ_INPUT_MAX], uint64_t kind, const char *text)
{
	input[0] = (uint8_t)kind;
	return 1 + (size_t)snprintf((char *)input + 1, FUZZ_INPUT_MAX - 1, "%s", text);
}

static size_t text_good(uint8_t input[FUZZ_INPUT_MAX])
{
	return text_of(input, 0, good_text[0][0]);
}

static size_t text_change(uint8_t input[FUZZ_INPUT_MAX])
{
	static const char bytes[] = "\n =[]0129.-%/:;#,\"\xff\t\rKkMGiBsgpujob_";
	uint64_t kind = fuzz_random() % 3;
	size_t size = text_of(input, kind, good_text[kind][fuzz_random() % 3]);

	for (uint64_t changes = fuzz_random() % 5; changes > 0; changes--) {
		size_t at = 1 + fuzz_random() % (size - 1);

		if (fuzz_random() % 4 == 0 && size > 2) /* one less */
			memmove(input + at, input + at + 1, --size - at);
		else
			input[at] = (uint8_t)bytes[fuzz_random() % (sizeof bytes)];
	}
	return size;
}

const struct fuzz_target fuzz_text = {
    .name = "text",
    .reads = "settings in files, in the environment and as values",
    .run = text_run,
    .good = text_good,
    .change = text_change,
    .rounds = 8000,
};

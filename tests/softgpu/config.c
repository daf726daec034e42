/* SPDX-License-Identifier: MIT */
/* Reads the environment of the software GPU once. */
#include "tests/softgpu/config.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct config settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool is_set(const char *name)
{
	const char *text = getenv(name);
	return text && *text && strcmp(text, "0") != 0;
}

/* "512M", "2G", "2GiB" or plain bytes; anything else is worth a word, as a typo would hide a test.
 */
static bool parse_bytes(const char *text, uint64_t *bytes)
{
	char *end;
	*bytes = strtoull(text, &end, 10);
	const char *units = "KMGT";
	const char *unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		*bytes <<= 10 * (unit - units + 1);
		end++;
		if (strcmp(end, "iB") == 0 || strcmp(end, "B") == 0)
			return *bytes != 0;
	}
	return *end == '\0' && *bytes != 0;
}

static uint64_t bytes_of(const char *name, uint64_t otherwise)
{
	uint64_t value;
	const char *text = getenv(name);
	if (!text || !*text)
		return otherwise;
	if (parse_bytes(text, &value))
		return value;
	fprintf(stderr, "softgpu: %s=%s: expected a size such as 512M or 2G\n", name, text);
	return otherwise;
}

/* A whole number between two bounds; what is not is said and not used. */
static uint64_t number_of(const char *name, uint64_t least, uint64_t most, uint64_t otherwise)
{
	const char *text = getenv(name);
	if (!text || !*text)
		return otherwise;
	char *end;
	uint64_t value = strtoull(text, &end, 10);
	if (*end || *text == '-' || value < least || value > most) {
		fprintf(stderr, "softgpu: %s=%s: expected %llu to %llu\n", name, text,
		        (unsigned long long)least, (unsigned long long)most);
		return otherwise;
	}
	return value;
}

static uint64_t granularity(void)
{
	uint64_t value = bytes_of("SOFTGPU_GRANULARITY", GRANULARITY);
	if (value >= GRANULARITY && (value & (value - 1)) == 0)
		return value;
	fprintf(stderr, "softgpu: SOFTGPU_GRANULARITY: expected a power of two from 2M\n");
	return GRANULARITY;
}

/* Calls `take` for each item of a list with commas; what it refuses is said and left out. */
static void each_item(const char *name, const char *expected,
                      bool (*take)(const char *item, size_t index))
{
	char items[512];
	const char *text = getenv(name);
	if (!text || !*text)
		return;
	snprintf(items, sizeof(items), "%s", text);
	char *rest;
	size_t index = 0;
	for (char *item = strtok_r(items, ",", &rest); item; item = strtok_r(NULL, ",", &rest))
		if (!take(item, index++))
			fprintf(stderr, "softgpu: %s: %s: expected %s\n", name, item, expected);
}

static const struct {
	const char *name;
	bool *set;
} all_traits[] = {
    {"cpu-copies", &settings.traits.cpu_copies},
    {"host-numa-crashes", &settings.traits.host_numa_crashes},
    {"host-nodes", &settings.traits.host_nodes},
    {"kernel-crashes", &settings.traits.kernel_crashes},
    {"newer-forms", &settings.traits.newer_forms},
    {"slow-memory-info", &settings.traits.slow_memory_info},
    {"uncached-host", &settings.traits.uncached_host},
    {"unmap-holds", &settings.traits.unmap_holds},
    {"unmap-waits", &settings.traits.unmap_waits},
};

static bool take_trait(const char *item, size_t index)
{
	(void)index;
	for (size_t i = 0; i < sizeof(all_traits) / sizeof(all_traits[0]); i++) {
		if (strcmp(item, all_traits[i].name) == 0) {
			*all_traits[i].set = true;
			return true;
		}
	}
	return false;
}

/* "dh" or "hd", and a form after a colon; "1" is every copy, as drivers that look at the first byte
 * would have it. */
static bool take_mixed(const char *item, size_t index)
{
	static const char *const forms[] = {"to-device", "to-host", "between", "rows", "fill"};
	(void)index;
	if (strcmp(item, "1") == 0) {
		settings.no_mixed[0] = settings.no_mixed[1] = FORM_FILL - 1;
		return true;
	}
	bool host_first = strncmp(item, "hd", 2) == 0;
	if (!host_first && strncmp(item, "dh", 2) != 0)
		return false;
	if (item[2] == '\0') {
		settings.no_mixed[host_first] = 2 * FORM_FILL - 1;
		return true;
	}
	for (size_t i = 0; item[2] == ':' && i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (strcmp(item + 3, forms[i]) == 0) {
			settings.no_mixed[host_first] |= 1U << i;
			return true;
		}
	}
	return false;
}

/* "16M", "16M:cpus" (the same), "16M:nocpus", "16M:crashes", "none" (no memory), "none:nocpus". */
static bool take_node(const char *item, size_t index)
{
	char size[32];
	size_t length = strcspn(item, ":");
	if (index >= MAX_NUMA_NODES || length >= sizeof(size))
		return false;
	bool has_cpus = strcmp(item + length, ":nocpus") != 0;
	bool crashes = strcmp(item + length, ":crashes") == 0;
	if (item[length] && has_cpus && !crashes && strcmp(item + length, ":cpus") != 0)
		return false;
	snprintf(size, sizeof(size), "%.*s", (int)length, item);
	uint64_t memory = 0;
	if (strcmp(size, "none") != 0 && !parse_bytes(size, &memory))
		return false;
	settings.nodes[index] =
	    (struct numa_node){.memory = memory, .has_cpus = has_cpus, .crashes = crashes};
	settings.node_count = (int)index + 1;
	return true;
}

static void read_environment(void)
{
	settings.devices = (int)number_of("SOFTGPU_DEVICES", 0, MAX_DEVICES, 1);
	settings.memory = bytes_of("SOFTGPU_MEMORY", 2ULL << 30);
	const char *context_memory = getenv("SOFTGPU_CONTEXT_MEMORY");
	bool none = context_memory && strcmp(context_memory, "0") == 0;
	settings.context_memory = none ? 0 : bytes_of("SOFTGPU_CONTEXT_MEMORY", 8ULL << 20);
	settings.kernel_time_ns = 1000 * number_of("SOFTGPU_KERNEL_TIME_US", 0, 1000000000, 0);
	settings.granularity = granularity();
	settings.host_bandwidth = bytes_of("SOFTGPU_HOST_BANDWIDTH", 0);
	if (getenv("SOFTGPU_CGROUP"))
		snprintf(settings.cgroup, sizeof(settings.cgroup), "%s", getenv("SOFTGPU_CGROUP"));
	settings.release_delay_ns = 1000000 * number_of("SOFTGPU_RELEASE_DELAY_MS", 0, 3600000, 0);
	settings.driver_version =
	    (int)number_of("SOFTGPU_DRIVER_VERSION", 4000, NEWEST_DRIVER_VERSION, DRIVER_VERSION);
	const char *mode = getenv("SOFTGPU_MODE");
	settings.mps = mode && strcmp(mode, "mps") == 0;
	settings.quiet = is_set("SOFTGPU_QUIET");
	settings.no_vmm = is_set("SOFTGPU_NO_VMM");
	settings.no_host_vmm = settings.no_vmm || is_set("SOFTGPU_NO_HOST_VMM");
	settings.no_host_numa = settings.no_host_vmm || is_set("SOFTGPU_NO_HOST_NUMA");
	const char *nvml = getenv("SOFTGPU_NVML");
	settings.nvml_totals = nvml && strcmp(nvml, "totals") == 0;
	settings.nvml_of_host = nvml && strcmp(nvml, "host") == 0;
	each_item("SOFTGPU_NO_MIXED", "1, dh or hd, and to-device, to-host, between, rows or fill",
	          take_mixed);
	each_item("SOFTGPU_TRAITS", "a name that README.md lists", take_trait);
	settings.nodes[0] = (struct numa_node){.memory = UINT64_MAX, .has_cpus = true};
	settings.node_count = 1;
	each_item("SOFTGPU_NUMA_NODES", "a size or none, and perhaps :nocpus or :crashes",
	          take_node);
	settings.legacy_event_ns = 1000 * number_of("SOFTGPU_LEGACY_EVENT_US", 0, 1000000, 0);
	settings.visible_devices = getenv("CUDA_VISIBLE_DEVICES");
	settings.fail = getenv("SOFTGPU_FAIL");
	settings.hide = getenv("SOFTGPU_HIDE");
	settings.attributes = getenv("SOFTGPU_ATTRIBUTES");
	settings.trace = getenv("SOFTGPU_TRACE");

	const char *state = getenv("SOFTGPU_STATE_DIR");
	const char *scratch = getenv("TMPDIR");
	if (state && *state)
		snprintf(settings.state_dir, sizeof(settings.state_dir), "%s", state);
	else
		snprintf(settings.state_dir, sizeof(settings.state_dir), "%s/softgpu-%u",
		         scratch && *scratch ? scratch : "/tmp", (unsigned int)getuid());
}

const struct config *config(void)
{
	pthread_once(&once, read_environment);
	return &settings;
}

void (*say_too)(const char *line);

void say(const char *format, ...)
{
	char line[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (say_too)
		say_too(line);
	if (!config()->quiet)
		fprintf(stderr, "softgpu: %s\n", line);
}

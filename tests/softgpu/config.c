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
static uint64_t bytes_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	if (!text || !*text)
		return otherwise;
	char *end;
	uint64_t value = strtoull(text, &end, 10);
	const char *rest = end;
	const char *units = "KMGT";
	const char *unit = *rest ? strchr(units, *rest) : NULL;
	if (unit) {
		value <<= 10 * (unit - units + 1);
		rest++;
		if (strcmp(rest, "iB") == 0 || strcmp(rest, "B") == 0)
			rest = "";
	}
	if (*rest || value == 0) {
		fprintf(stderr, "softgpu: %s=%s: expected a size such as 512M or 2G\n", name, text);
		return otherwise;
	}
	return value;
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
	settings.release_delay_ns = 1000000 * number_of("SOFTGPU_RELEASE_DELAY_MS", 0, 3600000, 0);
	settings.driver_version =
	    (int)number_of("SOFTGPU_DRIVER_VERSION", 4000, DRIVER_VERSION, DRIVER_VERSION);
	const char *mode = getenv("SOFTGPU_MODE");
	settings.mps = mode && strcmp(mode, "mps") == 0;
	settings.quiet = is_set("SOFTGPU_QUIET");
	settings.no_vmm = is_set("SOFTGPU_NO_VMM");
	settings.no_host_vmm = settings.no_vmm || is_set("SOFTGPU_NO_HOST_VMM");
	settings.no_host_numa = settings.no_host_vmm || is_set("SOFTGPU_NO_HOST_NUMA");
	const char *nvml = getenv("SOFTGPU_NVML");
	settings.nvml_totals = nvml && strcmp(nvml, "totals") == 0;
	settings.nvml_of_host = nvml && strcmp(nvml, "host") == 0;
	settings.no_mixed_copies = is_set("SOFTGPU_NO_MIXED_COPIES");
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

void say(const char *format, ...)
{
	if (config()->quiet)
		return;
	char line[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	fprintf(stderr, "softgpu: %s\n", line);
}

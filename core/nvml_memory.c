/* Answers to NVML's memory queries. Rules: runs inside the user's process, with CUDA or without. */
#include "core/nvml_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/job.h"
#include "core/job_config.h"
#include "core/state/segment.h"

/* Of a process that has no part in a job's books, nvidia-smi or one before its cuInit; read once. */
static struct job_config own;
static bool own_is_read;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

static void read_own(void)
{
	own_is_read = job_config_start(&own);
}

static const struct job_config *configuration(void)
{
	const struct job_config *of_job = job_configuration();

	if (of_job)
		return of_job;
	pthread_once(&own_once, read_own);
	return own_is_read ? &own : NULL;
}

/* The driver names a MIG device by the bytes of its UUID alone, NVML with "MIG-" before them. */
static bool is_same_uuid(const char *one, const char *other)
{
	static const size_t prefix = sizeof("GPU-") - 1;

	return strlen(one) > prefix && strlen(other) > prefix &&
	       strcasecmp(one + prefix, other + prefix) == 0;
}

int nvml_memory_ordinal(const char *visible, int index, const char *uuid)
{
	int ordinal = 0;

	if (!visible)
		return index;
	/* What is no device ends the list. */
	for (const char *entry = visible; *entry; ordinal++) {
		size_t length = strcspn(entry, ",");
		char *end;
		long number = strtol(entry, &end, 10);

		if (end == entry + length ? number == index : strncasecmp(entry, uuid, length) == 0)
			return length ? ordinal : -1;
		if (length == 0 || (end == entry + length && number < 0))
			break;
		entry += length;
		entry += *entry == ',';
	}
	return -1;
}

static const char *visible_devices(char *const *environment)
{
	static const char name[] = "CUDA_VISIBLE_DEVICES=";

	for (; *environment; environment++)
		if (strncmp(*environment, name, sizeof(name) - 1) == 0)
			return *environment + sizeof(name) - 1;
	return NULL;
}

/* What the job's books have of a device; nothing where there are none. */
struct books {
	uint64_t charged[2]; /* by enum segment_side */
	uint64_t limit;      /* that its living processes hold; 0: none has met the device */
};

static struct books read_books(const char *job, const char *uuid)
{
	struct segment_view *view = malloc(sizeof(*view));
	struct books books = {0};

	if (view && segment_read(job, view, NULL, 0) == 0) {
		for (int i = 0; i < view->device_count; i++) {
			if (!is_same_uuid(view->device[i].uuid, uuid))
				continue;
			memcpy(books.charged, view->charged[i], sizeof(books.charged));
			if (view->ended_ns == 0)
				books.limit = statistics_get(&view->job_total[i].limit_set) -
				              statistics_get(&view->job_total[i].limit_grown);
		}
	}
	free(view);
	return books;
}

static bool is_told_the_truth(const struct config *config)
{
	return config_disabled(config) || !config_nvml(config);
}

bool nvml_memory_reported(const struct config_device *device, struct reported *memory)
{
	const struct job_config *c = configuration();
	struct config *config = c ? job_config_read(c) : NULL;
	struct config_device as_cuda = *device;
	struct config_gpu settings;
	struct books books;
	bool told = false;

	if (config && !is_told_the_truth(config)) {
		as_cuda.ordinal = nvml_memory_ordinal(visible_devices(c->environment),
		                                      device->ordinal, device->uuid);
		config_for_device(config, &as_cuda, &settings);
		books = read_books(c->name, device->uuid);
		if (books.limit)
			settings.memory_limit = books.limit;
		told = reported_memory(&settings, books.charged[SEGMENT_ON_DEVICE],
		                       books.charged[SEGMENT_ON_HOST], memory);
	}
	config_release(config);
	return told;
}

/* The device set. Rules: runs inside the user's process; changes no current context. */
#include "core/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"

enum { DRAIN_PAUSE_NS = 10000000 };

static void format_uuid(const CUuuid *uuid, char *text, size_t size)
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(text, size,
	         "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
	         b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
	         b[14], b[15]);
}

/* Fields the driver refuses stay empty: the device is then known by the others. */
static int identify(struct device *device, int ordinal)
{
	CUuuid uuid;
	size_t memory = 0;

	if (driver.cuDeviceGet(&device->handle, ordinal) != CUDA_SUCCESS)
		return -ENODEV;
	device->id.ordinal = ordinal;
	/* v2 knows MIG instances; drivers before 11.4 have the first version alone. */
	if (driver.cuDeviceGetUuid_v2(&uuid, device->handle) == CUDA_SUCCESS ||
	    driver.cuDeviceGetUuid(&uuid, device->handle) == CUDA_SUCCESS)
		format_uuid(&uuid, device->id.uuid, sizeof(device->id.uuid));
	if (driver.cuDeviceGetPCIBusId(device->id.pci_bus_id, sizeof(device->id.pci_bus_id),
	                               device->handle) != CUDA_SUCCESS)
		device->id.pci_bus_id[0] = '\0';
	if (driver.cuDeviceGetName(device->name, sizeof(device->name), device->handle) !=
	    CUDA_SUCCESS)
		device->name[0] = '\0';
	if (driver.cuDeviceTotalMem_v2(&memory, device->handle) == CUDA_SUCCESS)
		device->id.memory = memory;
	return 0;
}

static int enter_books(struct device *device, struct segment *segment, const char *job)
{
	device->statistics = &device->own_statistics;
	if (segment) {
		struct segment_device entry = {.memory = device->id.memory};

		memcpy(entry.uuid, device->id.uuid, sizeof(entry.uuid));
		memcpy(entry.pci_bus_id, device->id.pci_bus_id, sizeof(entry.pci_bus_id));
		memcpy(entry.name, device->name, sizeof(entry.name));
		device->index = segment_device(segment, &entry);
		if (device->index >= 0) {
			device->segment = segment;
			device->statistics = segment_statistics(segment, device->index);
		} else {
			log_error("gpu %d: the job's segment has no room for another device; its "
			          "limit holds for this process alone",
			          device->id.ordinal);
		}
	}
	device->registry = registry_create(job, (int)getpid(), device->id.ordinal);
	return device->registry ? 0 : -ENOMEM;
}

int device_set_fill(struct device_set *set, struct segment *segment, const char *job)
{
	int found = 0, error = 0;

	memset(set, 0, sizeof(*set));
	if (driver.cuDeviceGetCount(&found) != CUDA_SUCCESS)
		return -ENODEV;
	if (found > DEVICE_MAX) {
		log_warning("%d devices: those after the first %d are left alone", found,
		            DEVICE_MAX);
		found = DEVICE_MAX;
	}
	for (int i = 0; i < found && !error; i++) {
		struct device *device = &set->device[i];

		pthread_mutex_init(&device->lock, NULL);
		set->count = i + 1;
		error = identify(device, i);
		if (!error)
			error = enter_books(device, segment, job);
	}
	if (error)
		device_set_clear(set);
	return error;
}

void device_set_clear(struct device_set *set)
{
	for (int i = set->count - 1; i >= 0; i--) {
		if (set->device[i].registry)
			registry_destroy(set->device[i].registry);
		pthread_mutex_destroy(&set->device[i].lock);
	}
	set->count = 0;
}

static bool is_named(const struct device *device, const char *name)
{
	size_t length = strlen(name);
	const char *pci = device->id.pci_bus_id;

	if (length > 4 && strncasecmp(device->id.uuid, name, length) == 0)
		return true;
	/* The PCI domain may be left out. */
	return pci[0] && (strcasecmp(pci, name) == 0 ||
	                  (strchr(pci, ':') && strcasecmp(strchr(pci, ':') + 1, name) == 0));
}

struct device *device_set_find(struct device_set *set, const char *name)
{
	const char *gpu = strstr(name, "/gpu:");
	struct device *found = NULL;
	char *end;
	long ordinal;

	if (gpu && name[0] == '/')
		name = gpu + strlen("/gpu:");
	ordinal = strtol(name, &end, 10);
	if (end != name && *end == '\0')
		return ordinal >= 0 && ordinal < set->count ? &set->device[ordinal] : NULL;
	for (int i = 0; i < set->count; i++) {
		if (!is_named(&set->device[i], name))
			continue;
		if (found)
			return NULL; /* ambiguous */
		found = &set->device[i];
	}
	return found;
}

struct device *device_set_by_handle(struct device_set *set, CUdevice handle)
{
	for (int i = 0; i < set->count; i++) {
		if (set->device[i].handle == handle)
			return &set->device[i];
	}
	return NULL;
}

static uint64_t grown(const struct device *device)
{
	return device->segment ? segment_grown(device->segment, device->index)
	                       : atomic_load_explicit(&device->own_grown, memory_order_relaxed);
}

uint64_t device_limit_by(const struct device *device, const struct config_gpu *settings)
{
	uint64_t limit = settings->memory_limit, most = settings->memory_limit_max, growth;

	if (most <= limit)
		return limit;
	growth = grown(device);
	return growth < most - limit ? limit + growth : most;
}

uint64_t device_limit(struct device *device)
{
	struct config_gpu settings = device_settings(device);

	return device_limit_by(device, &settings);
}

void device_note_limit(struct device *device)
{
	struct config_gpu settings = device_settings(device);
	uint64_t limit = device_limit_by(device, &settings);
	uint64_t used = device_charged(device, SEGMENT_ON_DEVICE);
	struct statistics *s = device->statistics;

	statistics_set(&s->limit_set, limit);
	statistics_set(&s->limit_grown, limit - settings.memory_limit);
	/* What is in use already is made less by the mover alone, who knows what it cannot move. */
	statistics_set(&s->limit_held, used > limit ? used : limit);
	if (used <= limit)
		statistics_set(&s->held_reason, HELD_NONE);
	else if (statistics_get(&s->held_reason) == HELD_NONE)
		statistics_set(&s->held_reason, statistics_get(&s->elastic) == ELASTIC_YES
		                                    ? HELD_PENDING
		                                    : HELD_FOREIGN);
}

bool device_judges_growth(struct device *device, uint64_t interval_ns)
{
	struct timespec time;
	uint64_t now, before;

	if (device->segment)
		return segment_judges_growth(device->segment, device->index, interval_ns);
	clock_gettime(CLOCK_MONOTONIC, &time);
	now = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
	before = atomic_load(&device->own_judged_ns);
	return now - before >= interval_ns &&
	       atomic_compare_exchange_strong(&device->own_judged_ns, &before, now);
}

void device_grow(struct device *device, uint64_t bytes)
{
	if (device->segment)
		segment_set_grown(device->segment, device->index, bytes);
	else
		atomic_store(&device->own_grown, bytes);
}

bool device_apply(struct device *device, const struct config_gpu *settings)
{
	uint64_t limit_before;
	bool changed;

	pthread_mutex_lock(&device->lock);
	limit_before = device->settings.memory_limit;
	changed = memcmp(&device->settings, settings, sizeof(*settings)) != 0;
	device->settings = *settings;
	pthread_mutex_unlock(&device->lock);

	if (device->segment)
		segment_claim(device->segment, device->index, settings->memory_limit);
	else if (settings->memory_limit != limit_before)
		atomic_store(&device->own_grown, 0);
	if (changed) /* what could not move before is tried again */
		statistics_set(&device->statistics->held_reason, HELD_NONE);
	device_note_limit(device);
	statistics_set(&device->statistics->share_set, settings->share);
	return changed;
}

struct config_gpu device_settings(struct device *device)
{
	struct config_gpu settings;

	pthread_mutex_lock(&device->lock);
	settings = device->settings;
	pthread_mutex_unlock(&device->lock);
	return settings;
}

/* The quota of a process that has no segment. */
static int charge_own(struct device *device, enum segment_side side, uint64_t bytes, uint64_t limit)
{
	uint64_t used = atomic_load(&device->own_charge[side]);

	do {
		if (bytes > UINT64_MAX - used || used + bytes > limit)
			return -ENOSPC;
	} while (!atomic_compare_exchange_weak(&device->own_charge[side], &used, used + bytes));
	return 0;
}

static void raise_peak(_Atomic uint64_t *peak, uint64_t value)
{
	uint64_t seen = statistics_get(peak);

	while (value > seen && !atomic_compare_exchange_weak(peak, &seen, value))
		;
}

/* Whether what the living hold leaves room: only the dead, whose memory still drains, are in the
 * way. */
static bool fits_without_the_dead(struct device *device, enum segment_side side, uint64_t bytes,
                                  uint64_t limit)
{
	uint64_t charged = segment_charged(device->segment, device->index, side);
	uint64_t draining = segment_draining(device->segment, device->index, side);
	uint64_t living = charged > draining ? charged - draining : 0;

	return bytes <= limit && living <= limit - bytes;
}

static void pause_a_little(void)
{
	struct timespec left = {.tv_nsec = DRAIN_PAUSE_NS};

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

/* A rerun finds its dead predecessor's memory still charged: it waits, at most for the drain. */
static __attribute__((noinline)) int
charge_after_drain(struct device *device, enum segment_side side, uint64_t bytes, uint64_t limit)
{
	int saved = errno, cancel, error = -ENOSPC;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	for (uint64_t waited = 0; error == -ENOSPC && waited < SEGMENT_DRAIN_NS &&
	                          fits_without_the_dead(device, side, bytes, limit);
	     waited += DRAIN_PAUSE_NS) {
		pause_a_little();
		error = segment_reserve(device->segment, device->index, side, bytes, limit);
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return error;
}

static int charge_job(struct device *device, enum segment_side side, uint64_t bytes, uint64_t limit)
{
	int error = segment_reserve(device->segment, device->index, side, bytes, limit);

	return error == -ENOSPC ? charge_after_drain(device, side, bytes, limit) : error;
}

int device_charge(struct device *device, enum segment_side side, uint64_t bytes, uint64_t limit)
{
	struct statistics *s = device->statistics;
	int error = device->segment ? charge_job(device, side, bytes, limit)
	                            : charge_own(device, side, bytes, limit);

	if (error)
		return error;
	if (side == SEGMENT_ON_DEVICE)
		raise_peak(&s->device_peak, statistics_add(&s->device_used, bytes) + bytes);
	else
		raise_peak(&s->host_peak, statistics_add(&s->host_used, bytes) + bytes);
	return 0;
}

int device_charge_taken(struct device *device, uint64_t bytes)
{
	int error = device_charge(device, SEGMENT_ON_DEVICE, bytes, CONFIG_UNLIMITED);

	if (!error)
		device_note_limit(device);
	return error;
}

void device_uncharge(struct device *device, enum segment_side side, uint64_t bytes)
{
	struct statistics *s = device->statistics;

	if (device->segment)
		segment_unreserve(device->segment, device->index, side, bytes);
	else
		atomic_fetch_sub(&device->own_charge[side], bytes);
	statistics_sub(side == SEGMENT_ON_DEVICE ? &s->device_used : &s->host_used, bytes);
	if (statistics_get(&s->limit_held) > statistics_get(&s->limit_set))
		device_note_limit(device);
}

bool device_can_hold(const struct device *device, uint64_t bytes)
{
	return !device->id.memory || bytes <= device->id.memory;
}

uint64_t device_charged(struct device *device, enum segment_side side)
{
	return device->segment ? segment_charged(device->segment, device->index, side)
	                       : atomic_load(&device->own_charge[side]);
}

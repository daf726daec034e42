/* SPDX-License-Identifier: MIT */
/*
 * Making the device set, and finding devices in it. Rules: runs inside the user's process; changes
 * no current context.
 */
#include "core/budget/device.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cuda/context.h"
#include "core/base/log.h"
#include "core/registry/factory.h"

/* The name of the software GPU. */
#define SOFT_NAME "Spillway software GPU"

static void device_set_format_uuid(const CUuuid *uuid, char *text, size_t size)
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(text, size,
	         "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
	         b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
	         b[14], b[15]);
}

/* Fields the driver refuses stay empty: the device is then known by the others. */
static int device_set_do_identify(struct device *device, int ordinal)
{
	CUuuid uuid;
	size_t memory = 0;

	if (driver.cuDeviceGet(&device->handle, ordinal) != CUDA_SUCCESS)
		return -ENODEV;
	device->id.ordinal = ordinal;
	/* v2 knows MIG instances; drivers before 11.4 have the first version alone. */
	if (driver.cuDeviceGetUuid_v2(&uuid, device->handle) == CUDA_SUCCESS ||
	    driver.cuDeviceGetUuid(&uuid, device->handle) == CUDA_SUCCESS)
		device_set_format_uuid(&uuid, device->id.uuid, sizeof(device->id.uuid));
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

/* Enters a device in these books. Returns its index there, or a negative errno. */
static int enter_in(struct device *device, struct segment *segment)
{
	struct segment_device entry = {.memory = device->id.memory};
	struct segment_own own;

	memcpy(entry.uuid, device->id.uuid, sizeof(entry.uuid));
	memcpy(entry.pci_bus_id, device->id.pci_bus_id, sizeof(entry.pci_bus_id));
	memcpy(entry.name, device->name, sizeof(entry.name));
	device->index = segment_device(segment, &entry);
	if (device->index < 0)
		return device->index;
	device->segment = segment;
	own = segment_own(segment, device->index);
	device->statistics = own.counters;
	device->ledger = own.ledger;
	device->placed = own.placed;
	return device->index;
}

/* Enters a device in the job's books, or in private ones where there is no room in those. */
static int enter_books(struct device_set *set, struct device *device, struct segment *segment)
{
	int index = segment ? enter_in(device, segment) : -ENOENT;

	device->is_in_books = index >= 0;
	if (segment && index < 0)
		log_error("gpu %d: cannot be entered in the job's books: %s; under a limit "
		          "this process gets no memory of this GPU",
		          device->id.ordinal,
		          index == -ENOSPC ? "its table of devices is full" : strerror(-index));
	if (index < 0 && !set->apart)
		set->apart = segment_make_private(set->count);
	if (index < 0 && (!set->apart || enter_in(device, set->apart) < 0))
		return -ENOMEM;
	device->registry = registry_create(set->job, (int)getpid(), device->id.ordinal);
	return device->registry ? 0 : -ENOMEM;
}

/* Makes the driver's devices. Those that were made stay in the set, to be cleared. */
static int make_gpus(struct device_set *set, int found)
{
	int error = 0;

	if (found > DEVICE_MAX) {
		log_warning("%d devices: those after the first %d are left alone", found,
		            DEVICE_MAX);
		found = DEVICE_MAX;
	}
	for (int i = 0; i < found && !error; i++) {
		struct device *device = &set->device[i];

		lock_init(&device->lock);
		set->count = i + 1;
		error = device_set_do_identify(device, i);
	}
	return error;
}

/* --- factories --- */

struct device_factory {
	struct factory factory;
	enum device_type makes;
	/*
	 * 0, or a negative errno. After -ENODEV the next factory is asked. Any other error ends the
	 * making of the set.
	 */
	int (*make)(struct device_set *set);
};

/* Returns whether the driver, which has so many devices, is the software GPU. */
static bool device_set_is_soft(int found)
{
	char name[64] = "";
	CUdevice first;

	return found > 0 && driver.cuDeviceGet(&first, 0) == CUDA_SUCCESS &&
	       driver.cuDeviceGetName(name, sizeof(name), first) == CUDA_SUCCESS &&
	       strncmp(name, SOFT_NAME, strlen(SOFT_NAME)) == 0;
}

static int make_cuda(struct device_set *set)
{
	int found = 0;

	if (driver.cuDeviceGetCount(&found) != CUDA_SUCCESS || device_set_is_soft(found))
		return -ENODEV;
	return make_gpus(set, found);
}

static int make_soft(struct device_set *set)
{
	int found = 0;

	if (driver.cuDeviceGetCount(&found) != CUDA_SUCCESS || !device_set_is_soft(found))
		return -ENODEV;
	return make_gpus(set, found);
}

static int host_node(const struct device *device)
{
	int node = 0;

	if (driver.cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device->handle) !=
	        CUDA_SUCCESS ||
	    node < 0)
		node = 0;
	return node;
}

/* Returns the tier of a node, made if need be. There are as many at most as devices. */
static struct spill_tier *tier_of(struct device_set *set, int node)
{
	int i = 0;

	while (i < set->tier_count && set->tier[i].node != node)
		i++;
	if (i == set->tier_count)
		set->tier[set->tier_count++] = (struct spill_tier){.index = i, .node = node};
	return &set->tier[i];
}

/* Makes the tiers, after the devices that spill there. */
static int make_host(struct device_set *set)
{
	for (int i = 0; i < set->count; i++) {
		struct device *device = &set->device[i];

		device->host_node = host_node(device);
		tier_of(set, device->host_node)->devices |= 1u << i;
	}
	return 0;
}

static const struct device_factory cuda = {{"cuda", 200}, DEVICE_GPU, make_cuda},
                                   soft = {{"soft", 100}, DEVICE_GPU, make_soft},
                                   host = {{"host", 70}, DEVICE_CPU, make_host};
static const struct factory *const factories[] = {&cuda.factory, &soft.factory, &host.factory};
enum { FACTORIES = sizeof(factories) / sizeof(*factories) };

/* Makes things of a type by the first factory that works. */
static int device_set_make(struct device_set *set, enum device_type type)
{
	int error = -ENODEV;

	for (const struct factory *f = factory_next(factories, FACTORIES, NULL);
	     f && error == -ENODEV; f = factory_next(factories, FACTORIES, f)) {
		const struct device_factory *factory = (const struct device_factory *)f;

		if (factory->makes != type)
			continue;
		error = factory->make(set);
		if (!error)
			set->made_by[type] = f->name;
	}
	return error;
}

int device_set_identify(struct device_set *set)
{
	int error = 0;

	set->process = (int)getpid();
	/*
	 * The field is written before it is read. A first read would map a page of zeros, and the
	 * write after it another page, which interrupts the helper's processor.
	 */
	set->tier_count = 0;
	for (int type = 0; type < DEVICE_TYPES && !error; type++)
		error = device_set_make(set, (enum device_type)type);
	return error;
}

int device_set_enter(struct device_set *set, struct segment *segment, const char *job)
{
	int error = 0;

	snprintf(set->job, sizeof(set->job), "%s", job ? job : "");
	for (int i = 0; i < set->count && !error; i++)
		error = enter_books(set, &set->device[i], segment);
	if (!error)
		log_info("GPUs: %d, found through \"%s\"; kinds of host memory: %d, through \"%s\"",
		         set->count, set->made_by[DEVICE_GPU], set->tier_count,
		         set->made_by[DEVICE_CPU]);
	return error;
}

void device_set_clear(struct device_set *set)
{
	for (int i = set->count - 1; i >= 0; i--) {
		if (set->device[i].registry)
			registry_destroy(set->device[i].registry);
		lock_destroy(&set->device[i].lock);
	}
	set->count = set->tier_count = 0;
	segment_leave(set->apart);
	set->apart = NULL;
}

/* --- names --- */

/*
 * Returns the text behind "/PREFIX:VALUE", if the name begins with it and the value is this one;
 * NULL: it is another value.
 */
static const char *skip_part(const char *name, const char *prefix, const char *value)
{
	size_t length = strlen(prefix);

	if (strncmp(name, prefix, length) != 0)
		return name; /* it is left out */
	name += length;
	length = strlen(value);
	return strncmp(name, value, length) == 0 && name[length] == '/' ? name + length : NULL;
}

/* Returns the index in "TYPE:INDEX" or "/TYPE:INDEX"; -1: the name is not of this form. */
static int index_in(const char *name, const char *type)
{
	size_t length = strlen(type);
	char *end;
	long index;

	name += name[0] == '/';
	if (strncmp(name, type, length) != 0 || name[length] != ':' || name[length + 1] < '0' ||
	    name[length + 1] > '9')
		return -1;
	index = strtol(name + length + 1, &end, 10);
	return *end == '\0' && index <= INT_MAX ? (int)index : -1;
}

/* Finds a device by its identity from the driver. Returns NULL when there is none, or several. */
static struct device *find_by_identity(struct device_set *set, const char *name)
{
	struct device *found = NULL;

	for (int i = 0; i < set->count; i++) {
		const struct device *device = &set->device[i];

		if (!config_selects(name, &device->id) &&
		    !(*name && strcmp(device->name, name) == 0))
			continue;
		if (found)
			return NULL;
		found = &set->device[i];
	}
	return found;
}

/* Finds by type and index, once the parts before them are known to be this process's. */
static bool find_by_type(struct device_set *set, const char *name, struct device_ref *found)
{
	char process[16];
	int index;

	snprintf(process, sizeof(process), "%d", set->process);
	name = skip_part(name, "/job:", set->job);
	name = name ? skip_part(name, "/process:", process) : NULL;
	if (!name)
		return false;
	index = index_in(name, "cpu");
	if (index >= 0) {
		found->type = DEVICE_CPU;
		found->tier = index < set->tier_count ? &set->tier[index] : NULL;
		return found->tier != NULL;
	}
	index = index_in(name, "gpu");
	if (index < 0)
		index = index_in(name, "cuda");
	found->type = DEVICE_GPU;
	found->gpu = index >= 0 && index < set->count ? &set->device[index] : NULL;
	return found->gpu != NULL;
}

bool device_set_lookup(struct device_set *set, const char *name, struct device_ref *found)
{
	struct device_ref read = {.type = DEVICE_GPU};

	if (!find_by_type(set, name, &read) && read.type == DEVICE_GPU)
		read.gpu = find_by_identity(set, name);
	if (!read.gpu && !read.tier)
		return false;
	*found = read;
	return true;
}

struct device *device_set_by_handle(struct device_set *set, CUdevice handle)
{
	for (int i = 0; i < set->count; i++) {
		if (set->device[i].handle == handle)
			return &set->device[i];
	}
	return NULL;
}

struct device *device_set_by_location(struct device_set *set, const CUmemLocation *location)
{
	if (location->type == LOCATION_LOCALITY_DOMAIN)
		return device_set_by_handle(set, location->id & 0xff);
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE
	           ? device_set_by_handle(set, location->id)
	           : NULL;
}

_Static_assert((int)DEVICE_MAX <= (int)CONTEXT_DEVICES, "there is room for each");

void device_set_start_contexts(struct device_set *set)
{
	struct context_device devices[DEVICE_MAX];

	for (int i = 0; i < set->count; i++) {
		struct device *device = &set->device[i];

		devices[i] = (struct context_device){device->handle, device->id.ordinal,
		                                     device->registry, device};
	}
	context_start(devices, set->count);
}

/* SPDX-License-Identifier: MIT */
/*
 * NVML's memory queries: within a job they report its limit, as cuMemGetInfo does.
 *
 * Our two functions stand before NVML's in every process that has them. A program linked to NVML
 * finds ours because this library is preloaded. A program that opens NVML is given
 * libspillway-nvml.so by shim_nvml_file(). That library is empty and needs this one first and the
 * real NVML second. So dlsym finds our two, and for every other name the real one's. A process that
 * never touches NVML pays nothing.
 *
 * Rules: those of shim.h; an unknown figure leaves the real numbers.
 */
#include "shim/nvml.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/descriptor.h"
#include "core/base/log.h"
#include "core/base/once.h"
#include "core/base/units.h"
#include "core/job/nvml_memory.h"
#include "shim/disabled.h"
#include "shim/hide.h"
#include "shim/real_dlopen.h"
#include "shim/role.h"
#include "shim/shim.h"

#define STAND_IN "libspillway-nvml.so"

/* --- the real library --- */

/*
 * Returns NVML by a reference that is kept: from the first query on it stays. NULL while the
 * process has none.
 */
static void *real_library(void)
{
	static void *library;
	void *found = __atomic_load_n(&library, __ATOMIC_ACQUIRE), *none = NULL;

	if (found)
		return found;
	shim_find_real_dlopen();
	found = real_dlopen(NVML_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
	if (found && !__atomic_compare_exchange_n(&library, &none, found, false, __ATOMIC_ACQ_REL,
	                                          __ATOMIC_ACQUIRE))
		dlclose(found);
	return found;
}

static void *real(const char *symbol)
{
	void *library = real_library();

	return library ? dlsym(library, symbol) : NULL;
}

/*
 * Returns whether the caller is in the library of this function. NVML is not linked -Bsymbolic: its
 * own questions come here too, and get the true answer.
 */
static bool is_called_by(void *library_function, void *caller)
{
	Dl_info ours, theirs;

	return dladdr(library_function, &ours) && dladdr(caller, &theirs) &&
	       ours.dli_fbase == theirs.dli_fbase;
}

/* --- the queries --- */

/*
 * Identifies the device. Returns false where two devices look alike. Fields NVML refuses stay
 * empty.
 */
static bool nvml_identify(nvmlDevice_t handle, struct config_device *device)
{
	nvmlReturn_t (*get_uuid)(nvmlDevice_t, char *, unsigned int) = real("nvmlDeviceGetUUID");
	nvmlReturn_t (*get_index)(nvmlDevice_t, unsigned int *) = real("nvmlDeviceGetIndex");
	nvmlReturn_t (*get_pci)(nvmlDevice_t, nvmlPciInfo_t *) = real("nvmlDeviceGetPciInfo_v3");
	unsigned int index;
	nvmlPciInfo_t pci;

	if (!get_uuid || get_uuid(handle, device->uuid, sizeof(device->uuid)) != NVML_SUCCESS)
		return false;
	device->ordinal = -1;
	if (get_index && get_index(handle, &index) == NVML_SUCCESS)
		device->ordinal = (int)index;
	if (get_pci && get_pci(handle, &pci) == NVML_SUCCESS)
		snprintf(device->pci_bus_id, sizeof(device->pci_bus_id), "%s", pci.busId);
	return true;
}

/*
 * Returns whether a GPU is divided by MIG. Such a one runs nothing itself: its numbers are the sum
 * of its parts.
 */
static bool is_divided(nvmlDevice_t handle, const char *uuid)
{
	nvmlReturn_t (*get_mode)(nvmlDevice_t, unsigned int *, unsigned int *) =
	    real("nvmlDeviceGetMigMode");
	unsigned int current, pending;

	return strncmp(uuid, "MIG-", 4) != 0 && get_mode &&
	       get_mode(handle, &current, &pending) == NVML_SUCCESS &&
	       current == NVML_DEVICE_MIG_ENABLE;
}

static bool nvml_replace(nvmlDevice_t handle, struct reported *memory)
{
	struct config_device device = {.memory = memory->total};
	bool replaced;
	int cancel;

	if (shim_is_disabled() || !nvml_identify(handle, &device) ||
	    is_divided(handle, device.uuid))
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	replaced = nvml_memory_reported(&device, memory);
	pthread_setcancelstate(cancel, NULL);
	return replaced;
}

static nvmlReturn_t nvml_missing(void)
{
	return real_library() ? NVML_ERROR_FUNCTION_NOT_FOUND : NVML_ERROR_LIBRARY_NOT_FOUND;
}

#define TELLS(query, memory_type, ...)                                                      \
	nvmlReturn_t query(nvmlDevice_t device, memory_type *memory)                        \
	{                                                                                   \
		KEEP_ERRNO;                                                                 \
		nvmlReturn_t (*function)(nvmlDevice_t, memory_type *) = real(#query);       \
		nvmlReturn_t result = function ? function(device, memory) : nvml_missing(); \
		struct reported told;                                                       \
                                                                                            \
		if (result != NVML_SUCCESS ||                                               \
		    is_called_by((void *)function, __builtin_return_address(0)))            \
			return result;                                                      \
		told = (struct reported){memory->total, memory->used, memory->free};        \
		if (nvml_replace(device, &told))                                            \
			*memory = (memory_type){__VA_ARGS__};                               \
		return result;                                                              \
	}

TELLS(nvmlDeviceGetMemoryInfo, nvmlMemory_t, told.total, told.free, told.used)
/* No part of the job's memory is reserved. */
TELLS(nvmlDeviceGetMemoryInfo_v2, nvmlMemory_v2_t, memory->version, told.total, 0, told.free,
      told.used)

/* --- opening it --- */

/*
 * Returns whether a file is named as NVML is: "libnvidia-ml.so", "libnvidia-ml.so.1",
 * "libnvidia-ml.so.580.65.06", with or without a folder.
 */
static bool is_library_name(const char *file)
{
	static const char stem[] = "libnvidia-ml.so";
	const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
	const char *version = name + sizeof(stem) - 1;

	if (strncmp(name, stem, sizeof(stem) - 1) != 0)
		return false;
	return *version == '\0' ||
	       (*version == '.' && version[strspn(version, ".0123456789")] == '\0');
}

static bool is_switched_off(void)
{
	const char *value = getenv("SPILLWAY_NVML");
	bool on = true;

	/* A value that is neither yes nor no is said when the configuration is read. */
	if (value)
		units_parse_bool(value, &on);
	return !on;
}

static char stand_in[PATH_MAX];

static _Atomic int packed = -1; /* the library within this object, as a file without a name */

/*
 * Makes such a file. The loader knows a library by the path it was opened by, also when the file is
 * closed: no other library is spelt like this one.
 */
static void unpack_stand_in(void)
{
	size_t size = (size_t)(shim_role.nvml_end - shim_role.nvml);
	int fd = descriptor_above_stdio(memfd_create(STAND_IN, MFD_CLOEXEC));

	if (fd < 0)
		return;
	if (write(fd, shim_role.nvml, size) == (ssize_t)size)
		snprintf(stand_in, sizeof(stand_in), "/proc/self/fd/../fd/%d", fd);
	atomic_store(&packed, fd);
}

static void find_stand_in(void)
{
	const char *folder_end;
	Dl_info self;

	if (shim_role.nvml) {
		unpack_stand_in();
		return;
	}
	if (!dladdr((void *)find_stand_in, &self))
		return;
	folder_end = strrchr(self.dli_fname, '/');
	if (folder_end)
		snprintf(stand_in, sizeof(stand_in), "%.*s/" STAND_IN,
		         (int)(folder_end - self.dli_fname), self.dli_fname);
}

static bool lacks(const char *symbol, uintptr_t address)
{
	(void)address;
	return strncmp(symbol, "nvml", 4) == 0 && !real(symbol);
}

/*
 * Loads the stand-in. Once it is loaded it stays, and NVML with it: a program that has functions of
 * ours may call them any time.
 */
static bool load_stand_in(int mode)
{
	static struct once once;
	static bool loaded;
	bool is_open;
	int fd;

	once_call(&once, find_stand_in);
	if (__atomic_load_n(&loaded, __ATOMIC_ACQUIRE))
		return true;
	is_open = stand_in[0] && real_dlopen(stand_in, mode);
	fd = atomic_exchange(&packed, -1);
	if (fd >= 0)
		close(fd);
	if (!is_open && shim_role.nvml)
		log_once(LOG_WARNING, "NVML tells of the whole GPU, because a library in memory "
		                      "cannot be opened here");
	if (!is_open)
		return false;
	/* An older NVML: a program that looks for the newer query must not find ours. */
	shim_hide(lacks);
	__atomic_store_n(&loaded, true, __ATOMIC_RELEASE);
	return true;
}

/*
 * Returns the file to open instead of NVML, mostly `file` itself. NVML is opened as the program
 * named it, so that a missing file, or another one, is as without us. A second NVML beside the
 * first is left alone: our functions speak to the first.
 */
const char *shim_nvml_file(const char *file, int mode)
{
	/* The program's own dlopen follows, in the scope it wants. */
	int local = mode & ~RTLD_GLOBAL;
	void *named, *first;
	bool exchanged = false;

	if (!file || !is_library_name(file) || shim_is_disabled() || is_switched_off())
		return file;
	named = real_dlopen(file, local);
	first = named ? real_dlopen(NVML_LIBRARY, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (named && first == named)
		exchanged = load_stand_in(local & ~RTLD_NOLOAD);
	if (first)
		dlclose(first);
	if (named)
		dlclose(named);
	dlerror();
	return exchanged ? stand_in : file;
}

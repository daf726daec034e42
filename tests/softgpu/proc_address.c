/* SPDX-License-Identifier: MIT */
/* cuGetProcAddress, as drivers 535 to 555 were seen to answer; see entry_points.def. */
#include "tests/softgpu/driver.h"

#include <string.h>

#include "tests/softgpu/entry_points.h"

#define FLAGS_MASK \
	(CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

static bool is_hidden(const char *name)
{
	size_t length = strlen(name);
	for (const char *item = config()->hide; item && *item;) {
		size_t item_length = strcspn(item, ",");
		if (item_length == length && memcmp(item, name, length) == 0)
			return true;
		item += item_length;
		item += *item == ',';
	}
	return false;
}

/*
 * Made-up forms of calls, newer than any header. They take handles of memory, or pin it, and know
 * no memory but their own driver's.
 */
static int newer_form(void)
{
	return CUDA_ERROR_INVALID_VALUE;
}

/* Of a driver that is made of this one and has more functions; ends with a NULL symbol. */
extern const struct entry_point later_entry_points[] __attribute__((weak));

static const struct entry_point *newer_form_of(const char *name, int version)
{
	static const struct entry_point forms[] = {
	    {"cuMulticastBindMem_v9", "cuMulticastBindMem", 13010, false, newer_form},
	    {"cuMulticastBindAddr_v9", "cuMulticastBindAddr", 13010, false, newer_form},
	    {"cuMemMap_v9", "cuMemMap", 13010, false, newer_form},
	    {"cuMemAlloc_v9", "cuMemAlloc", 13010, false, newer_form},
	};
	for (size_t i = 0; config()->traits.newer_forms && i < sizeof(forms) / sizeof(forms[0]);
	     i++)
		if (strcmp(name, forms[i].name) == 0 && version >= forms[i].version)
			return &forms[i];
	for (const struct entry_point *entry = later_entry_points; entry && entry->symbol; entry++)
		if (strcmp(name, entry->name) == 0 && version >= entry->version)
			return entry;
	return NULL;
}

/*
 * The newest symbol of that name which is not newer than the version. Callers that ask for
 * per-thread streams get such a symbol where one is old enough, else the ordinary one.
 */
static const struct entry_point *look_up(const char *name, int version, bool per_thread,
                                         bool *known)
{
	const struct entry_point *best = NULL;
	*known = false;
	if (!*name || is_hidden(name))
		return NULL;
	if ((best = newer_form_of(name, version)))
		return best;
	for (const struct entry_point *entry = entry_points; entry->symbol; entry++) {
		if (strcmp(entry->name, name) != 0 || entry->version > config()->driver_version)
			continue;
		*known = true;
		if (entry->version > version || (entry->per_thread && !per_thread))
			continue;
		if (!best || entry->per_thread > best->per_thread ||
		    (entry->per_thread == best->per_thread && entry->version > best->version))
			best = entry;
	}
	return best;
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
	CUresult result = injected_failure(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!symbol || !function || (flags & ~(cuuint64_t)FLAGS_MASK))
		return CUDA_ERROR_INVALID_VALUE;
	bool known;
	const struct entry_point *entry =
	    look_up(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
	if (!entry)
		return CUDA_ERROR_NOT_FOUND;
	*function = (void *)entry->address;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                    cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	CUresult result = injected_failure(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!symbol || !function || (flags & ~(cuuint64_t)FLAGS_MASK))
		return CUDA_ERROR_INVALID_VALUE;
	bool known;
	const struct entry_point *entry =
	    look_up(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
	*function = entry ? (void *)entry->address : NULL;
	if (status)
		*status = entry   ? CU_GET_PROC_ADDRESS_SUCCESS
		          : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
		                  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

/* Of the same driver; it stands for each of NVIDIA's private tables, which are not imitated. */
extern const void *const later_export_table[] __attribute__((weak));

EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	if (!later_export_table)
		return CUDA_ERROR_NOT_SUPPORTED;
	*table = later_export_table;
	return CUDA_SUCCESS;
}

/* What the program is told of its memory. */
#include "shim/shim.h"

#include "core/job.h"
#include "core/memory/pointer.h"
#include "core/memory/vmem.h"

HOOK(cuMemGetInfo_v2, size_t *free, size_t *total)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemGetInfo_v2)(free, total);
	struct context context;

	if (result == CUDA_SUCCESS && free && total && job_is_active() && context_current(&context))
		vmem_reported_info(context.device, free, total);
	return result;
}

HOOK(cuDeviceTotalMem_v2, size_t *bytes, CUdevice dev)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuDeviceTotalMem_v2)(bytes, dev);

	if (result == CUDA_SUCCESS && job_is_active()) {
		struct device *device = device_set_by_handle(job_devices(), dev);

		if (device)
			*bytes = vmem_reported_total(device, *bytes);
	}
	return result;
}

HOOK(cuMemGetAddressRange_v2, CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	KEEP_ERRNO;

	if (job_is_active() && pointer_range(dptr, pbase, psize))
		return CUDA_SUCCESS;
	return REAL(cuMemGetAddressRange_v2)(pbase, psize, dptr);
}

HOOK(cuPointerGetAttribute, void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	KEEP_ERRNO;
	CUresult result;

	if (job_is_active() && pointer_attribute(attribute, ptr, data, &result))
		return result;
	return REAL(cuPointerGetAttribute)(data, attribute, ptr);
}

/* The driver answers all it knows; what depends on the backing is put right after. */
HOOK(cuPointerGetAttributes, unsigned int numAttributes, CUpointer_attribute *attributes,
     void **data, CUdeviceptr ptr)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuPointerGetAttributes)(numAttributes, attributes, data, ptr);
	CUresult ignored;

	if (result != CUDA_SUCCESS || !job_is_active())
		return result;
	for (unsigned int i = 0; i < numAttributes; i++) {
		if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER &&
		    pointer_range(ptr, NULL, NULL))
			*(void **)data[i] = NULL;
		else
			pointer_attribute(attributes[i], ptr, data[i], &ignored);
	}
	return result;
}

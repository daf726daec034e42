/*
 * Device attributes: what the software GPU has, and SOFTGPU_ATTRIBUTES="NAME=value,..." over it.
 * Calls that an attribute announces ask here, so that a device told not to have them refuses them.
 */
#include "tests/softgpu/driver.h"

#include <stdlib.h>
#include <string.h>

/* Attributes that are the same for every device; those not named here are 0. */
static const int defaults[CU_DEVICE_ATTRIBUTE_MAX] = {
    [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = THREADS_PER_BLOCK,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X] = 1024,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y] = 1024,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z] = 64,
    [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X] = INT32_MAX,
    [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y] = 65535,
    [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z] = 65535,
    [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] = SHARED_PER_BLOCK,
    [CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY] = 65536,
    [CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32,
    [CU_DEVICE_ATTRIBUTE_MAX_PITCH] = INT32_MAX,
    [CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK] = REGISTERS_PER_MULTIPROCESSOR,
    [CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1000000,
    [CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT] = 512,
    [CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT] = 32,
    [CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT] = 512,
    [CU_DEVICE_ATTRIBUTE_GPU_OVERLAP] = 1,
    [CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT] = 2,
    [CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = MULTIPROCESSORS,
    [CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY] = 1,
    [CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS] = 1,
    [CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 1000000,
    [CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 256,
    [CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] = 4 << 20,
    [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = THREADS_PER_MULTIPROCESSOR,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR] = BLOCKS_PER_MULTIPROCESSOR,
    [CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING] = 1,
    [CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = CAPABILITY_MAJOR,
    [CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = CAPABILITY_MINOR,
    [CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] = SHARED_PER_MULTIPROCESSOR,
    [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] = SHARED_PER_BLOCK_OPTIN,
    [CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK] = SHARED_RESERVED,
    [CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR] = REGISTERS_PER_MULTIPROCESSOR,
    [CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1,
    [CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS] = 1,
    [CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM] = 1,
    [CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 1,
    [CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO] = 2,
    [CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS] = 0,
    [CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR] = 1,
    [CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    [CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_NUMA_ID] = -1,
};

static const struct {
	const char *name;
	int attribute;
} names[] = {
#define X(name) {#name, CU_DEVICE_ATTRIBUTE_##name},
#include "tests/softgpu/attributes.def"
#undef X
};

/* The attributes of all devices, as the environment wants them. */
static int values[CU_DEVICE_ATTRIBUTE_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int attribute_named(const char *name, size_t length)
{
	static const char prefix[] = "CU_DEVICE_ATTRIBUTE_";
	if (strncmp(name, prefix, strlen(prefix)) == 0) {
		name += strlen(prefix);
		length -= strlen(prefix);
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i].name) == length && memcmp(names[i].name, name, length) == 0)
			return names[i].attribute;
	return -1;
}

static void override(void)
{
	for (const char *text = config()->attributes; text && *text;) {
		size_t length = strcspn(text, "=,");
		int attribute = attribute_named(text, length);
		char *end = (char *)text + length;
		long value = *end == '=' ? strtol(end + 1, &end, 0) : 0;
		if (attribute < 0 || end == text + length || (*end && *end != ',')) {
			say("SOFTGPU_ATTRIBUTES: expected NAME=value,... at '%s'", text);
			return;
		}
		values[attribute] = (int)value;
		text = *end ? end + 1 : end;
	}
}

static void fill_in(void)
{
	memcpy(values, defaults, sizeof(values));
	values[CU_DEVICE_ATTRIBUTE_MPS_ENABLED] = config()->mps;
	if (config()->no_vmm)
		values[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 0;
	if (config()->no_host_vmm)
		values[CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 0;
	if (config()->no_host_numa)
		values[CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 0;
	override();
	/* None of them works without the one before. */
	if (!values[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED])
		values[CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 0;
	if (!values[CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED])
		values[CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 0;
	if (!values[CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] &&
	    values[CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID] == 0)
		values[CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID] = -1;
}

int device_attribute(CUdevice_attribute attribute)
{
	pthread_once(&once, fill_in);
	return values[attribute];
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice ordinal)
{
	struct device *device;
	CUresult result = enter_device(__func__, true, ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	if (!value || attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*value = device_attribute(attribute);
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID && *value == 0)
		*value = (int)device_pci_bus(device->machine_index);
	return leave(CUDA_SUCCESS);
}

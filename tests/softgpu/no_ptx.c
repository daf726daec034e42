/* Stands in for the PTX executor where it is not linked: no module loads, so nothing else is
 * called. */
#include "tests/softgpu/ptx/ptx.h"

#include <stdio.h>

enum ptx_status ptx_module_load(const char *text, size_t length, const struct ptx_memory *memory,
                                struct ptx_module **module, char *log, size_t log_size)
{
	(void)text, (void)length, (void)memory, (void)module;
	snprintf(log, log_size, "built without the PTX executor");
	return PTX_NOT_SUPPORTED;
}

void ptx_module_unload(struct ptx_module *module)
{
	(void)module;
}

const struct ptx_function *ptx_module_function(const struct ptx_module *module, uint32_t i)
{
	(void)module, (void)i;
	return NULL;
}

const struct ptx_function *ptx_module_find(const struct ptx_module *module, const char *name)
{
	(void)module, (void)name;
	return NULL;
}

bool ptx_module_global(const struct ptx_module *module, const char *name, uint64_t *address,
                       size_t *size)
{
	(void)module, (void)name, (void)address, (void)size;
	return false;
}

const struct ptx_function_info *ptx_function_info(const struct ptx_function *function)
{
	(void)function;
	return NULL;
}

enum ptx_status ptx_run(const struct ptx_function *function, const struct ptx_launch *launch,
                        struct ptx_fault *fault)
{
	(void)function, (void)launch, (void)fault;
	return PTX_NOT_SUPPORTED;
}

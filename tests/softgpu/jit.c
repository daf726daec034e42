/* The options of compiling and linking that want an answer: where the log of errors goes. */
#include <stdio.h>
#include <string.h>

#include "tests/softgpu/module.h"

void jit_log_find(struct jit_log *errors, unsigned int count, const CUjit_option *names,
                  void **values)
{
	for (unsigned int i = 0; names && values && i < count; i++) {
		switch ((int)names[i]) {
		case CU_JIT_ERROR_LOG_BUFFER:
			errors->text = values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			errors->size = (size_t)(uintptr_t)values[i];
			errors->used = &values[i];
			break;
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
			values[i] = NULL; /* nothing to say */
			break;
		default:
			break; /* hints for a compiler */
		}
	}
}

void jit_log_write(const struct jit_log *errors, const char *what)
{
	if (errors->text && errors->size)
		snprintf(errors->text, errors->size, "%s", what);
	if (errors->used)
		*errors->used = (void *)(uintptr_t)strlen(what);
}

/* SPDX-License-Identifier: MIT */
/*
 * The options of compiling and linking: a bound on registers, and answers: logs, times. The other
 * options are hints for a compiler.
 */
#include <stdio.h>
#include <string.h>

#include "tests/softgpu/machine.h"
#include "tests/softgpu/module.h"

static void bound_registers(struct jit *jit, unsigned int most)
{
	if (most && (!jit->max_registers || most < jit->max_registers))
		jit->max_registers = most;
}

static CUresult read_option(struct jit *jit, CUjit_option name, void **value)
{
	unsigned int number = (unsigned int)(uintptr_t)*value;
	switch ((int)name) {
	case CU_JIT_MAX_REGISTERS:
		bound_registers(jit, number);
		break;
	case CU_JIT_THREADS_PER_BLOCK:
		/* So many threads must find registers; they are given out by eights. */
		if (number == 0 || number > THREADS_PER_BLOCK)
			return CUDA_ERROR_INVALID_VALUE;
		jit->for_threads = true;
		bound_registers(jit, REGISTERS_PER_MULTIPROCESSOR / number / 8 * 8);
		break;
	case CU_JIT_TARGET:
		jit->for_target = true;
		break;
	case CU_JIT_WALL_TIME:
		jit->wall_time = value;
		break;
	case CU_JIT_LOG_VERBOSE:
		jit->verbose = number != 0;
		break;
	case CU_JIT_ERROR_LOG_BUFFER:
		jit->errors.text = *value;
		break;
	case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
		jit->errors.size = number;
		jit->errors.used = value;
		break;
	case CU_JIT_INFO_LOG_BUFFER:
		jit->info.text = *value;
		break;
	case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
		jit->info.size = number;
		jit->info.used = value;
		break;
	case CU_JIT_OPTIMIZATION_LEVEL:
		return number <= 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return (unsigned int)name < CU_JIT_NUM_OPTIONS ? CUDA_SUCCESS
		                                               : CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult jit_begin(struct jit *jit, unsigned int count, const CUjit_option *names, void **values)
{
	*jit = (struct jit){.began_ns = now_ns()};
	if (count && (!names || !values))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		CUresult result = read_option(jit, names[i], &values[i]);
		if (result != CUDA_SUCCESS)
			return result;
	}
	return jit->for_threads && jit->for_target ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Writes what fits; its length is that of what was written. */
static void write_log(const struct jit_log *log, const char *what)
{
	size_t used = 0;
	if (log->text && log->size) {
		snprintf(log->text, log->size, "%s", what);
		used = strlen(log->text);
	}
	if (log->used)
		*log->used = (void *)(uintptr_t)used;
}

void jit_end(const struct jit *jit, const char *error, const char *info)
{
	write_log(&jit->errors, error);
	write_log(&jit->info, jit->verbose ? info : "");
	if (jit->wall_time) {
		float ms = (float)((double)(now_ns() - jit->began_ns) / 1e6);
		*jit->wall_time = NULL;
		memcpy(jit->wall_time, &ms, sizeof(ms));
	}
}

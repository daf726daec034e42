/* SPDX-License-Identifier: MIT */
/* The handlers for any host, and the choice between the sets. */
#define ALU_SET  alu_baseline
#define ALU_NAME "baseline"
#include "lanes.h"

#include <stdlib.h>

const struct alu_set *alu_select(void)
{
#ifdef __x86_64__
	const char *name = getenv("SOFTGPU_ALU");
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
	    (!name || !strcmp(name, alu_avx512.name)))
		return &alu_avx512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	    __builtin_cpu_supports("bmi2") && (!name || !strcmp(name, alu_avx2.name)))
		return &alu_avx2;
#endif
	return &alu_baseline;
}

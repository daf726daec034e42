/* The handlers for any host. */
#define ALU_SET  alu_baseline
#define ALU_NAME "baseline"
#include "lanes.h"

const struct alu_set *alu_select(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
		return &alu_avx512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return &alu_avx2;
#endif
	return &alu_baseline;
}

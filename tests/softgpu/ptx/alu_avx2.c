/* The handlers for x86 hosts with AVX2 and fused multiply-add. */
#ifdef __x86_64__
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#define ALU_SET  alu_avx2
#define ALU_NAME "avx2"
#include "lanes.h"
#endif

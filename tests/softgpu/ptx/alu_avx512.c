/* The handlers for x86 hosts with AVX-512. */
#ifdef __x86_64__
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,bmi,bmi2,lzcnt,popcnt")
#define ALU_SET  alu_avx512
#define ALU_NAME "avx512"
#include "lanes.h"
#endif

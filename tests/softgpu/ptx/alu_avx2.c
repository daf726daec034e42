/* SPDX-License-Identifier: MIT */
/* The handlers for x86 hosts with AVX2 and fused multiply-add. */
#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#endif
#define ALU_SET  alu_avx2
#define ALU_NAME "avx2"
#include "lanes.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif

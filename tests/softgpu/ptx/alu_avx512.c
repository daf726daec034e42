/* SPDX-License-Identifier: MIT */
/* The handlers for x86 hosts with AVX-512. */
#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(                                                                \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,bmi,bmi2,lzcnt,popcnt"))), \
    apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,bmi,bmi2,lzcnt,popcnt")
#endif
#define ALU_SET  alu_avx512
#define ALU_NAME "avx512"
#include "lanes.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif

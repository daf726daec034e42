/* SPDX-License-Identifier: MIT */
/*
 * Expressions that kernels (broad.cu) and the CPU (tests/broad.c) both compute, for comparison bit
 * by bit. Each side defines the types u8..s64 and the functions named here before it includes this.
 */

/* u32 a, b, c */
#define INTEGER_CASES(X)                                          \
	X(a + b)                                                  \
	X(a - b)                                                  \
	X(a *b + c)                                               \
	X(a / (b | 1))                                            \
	X(a % (b | 1))                                            \
	X((s32)(a >> 1) / (s32)(b | 1))                           \
	X((s32)(a >> 1) % (s32)(b | 1))                           \
	X(a / 7)                                                  \
	X((s32)a / 10)                                            \
	X((s32)a % 1000)                                          \
	X(a << (b & 31))                                          \
	X(a >> (b & 31))                                          \
	X((s32)a >> (b & 31))                                     \
	X((a & b) | (~a & c))                                     \
	X(a ^ b ^ c)                                              \
	X((a & b) ^ (b & c) ^ (a & c))                            \
	X(a < b ? a : c)                                          \
	X((s32)a < (s32)b ? a : c)                                \
	X((a > b) + 2 * ((s32)a > (s32)b) + 4 * (a == c))         \
	X(a << 7 | a >> 25)                                       \
	X(count_ones(a))                                          \
	X(leading_zeros(a))                                       \
	X(first_set(a))                                           \
	X(reverse_bits(a))                                        \
	X(high_product(a, b))                                     \
	X(high_product_signed((s32)a, (s32)b))                    \
	X(permute_bytes(a, b, c & 0x7777))                        \
	X(permute_bytes(a, b, 0x5140))                            \
	X(shift_pair_left(a, b, c))                               \
	X(shift_pair_right(a, b, c))                              \
	X(sum_of_differences(a, b, c))                            \
	X(product_24(a, b))                                       \
	X(byte_differences(a, b))                                 \
	X(byte_sums(a, b))                                        \
	X(half_maxima(a, b))                                      \
	X((s32)a < 0 ? 0 - a : a)                                 \
	X((u8)a + (s8)b)                                          \
	X((u16)(a * b))                                           \
	X((s16)(a - b))                                           \
	X((u32)(s8)(a >> 3))                                      \
	X((u32)(u16)a *(u16)b)                                    \
	X((s16)a *(s16)b)                                         \
	X((a >> 5) & 0x3ff)                                       \
	X((a & ~0xff00u) | (b & 0xff) << 8)                       \
	X((s32)(a << 11) >> 20)                                   \
	X((u32)(((u64)a * b + c) >> 16))                          \
	X((u32)((((u64)a << 32 | b) + ((u64)c << 32 | a)) >> 32)) \
	X((u8)a > (u8)b ? (u8)a : (u8)b)                          \
	X((s16)a > (s16)b ? (u16)a : (u16)c)

/* u64 a, b, c */
#define LONG_CASES(X)                             \
	X(a + b)                                  \
	X(a - b)                                  \
	X(a *b + c)                               \
	X(a / (b | 1))                            \
	X(a % (b | 1))                            \
	X((u64)((s64)(a >> 1) / (s64)(b | 1)))    \
	X((u64)((s64)(a >> 1) % (s64)(b | 1)))    \
	X(a / 1000003)                            \
	X((u64)((s64)a / 12345))                  \
	X(a << (b & 63))                          \
	X(a >> (b & 63))                          \
	X((u64)((s64)a >> (b & 63)))              \
	X((a & b) | (~a & c))                     \
	X(a < b ? b : c)                          \
	X((s64)a < (s64)b ? b : c)                \
	X(count_ones_64(a))                       \
	X(leading_zeros_64(a))                    \
	X(first_set_64(a))                        \
	X(reverse_bits_64(a))                     \
	X(high_product_64(a, b))                  \
	X(high_product_signed_64((s64)a, (s64)b)) \
	X(a << 13 | a >> 51)                      \
	X((u64)(s64)(s32)a *(u64)(s64)(s32)b)     \
	X((u64)(u32)a *(u32)b + c)                \
	X((u64)(s64)(s16)a + (u8)b)               \
	X((a >> 20) & 0xfffffffffull)             \
	X(((a >> 32) ^ a) * 0x9e3779b97f4a7c15ull)

/* float a, b, c; the result is a float */
#define FLOAT_CASES(X)                                 \
	X(add_rn(a, b))                                \
	X(add_rz(a, b))                                \
	X(add_ru(a, b))                                \
	X(add_rd(a, b))                                \
	X(mul_rn(a, b))                                \
	X(mul_rz(a, b))                                \
	X(mul_ru(a, b))                                \
	X(mul_rd(a, b))                                \
	X(fma_rn(a, b, c))                             \
	X(fma_rz(a, b, c))                             \
	X(fma_ru(a, b, c))                             \
	X(fma_rd(a, b, c))                             \
	X(div_rn(a, b))                                \
	X(div_ru(a, b))                                \
	X(rcp_rn(a))                                   \
	X(sqrt_rn(a))                                  \
	X(sqrt_rz(a))                                  \
	X(lesser(a, b))                                \
	X(greater(a, b))                               \
	X(floorf(a))                                   \
	X(ceilf(a))                                    \
	X(truncf(a))                                   \
	X(rintf(a))                                    \
	X(roundf(a))                                   \
	X(fabsf(a))                                    \
	X(-a)                                          \
	X(copysignf(a, b))                             \
	X(fmodf(a, b))                                 \
	X(ldexpf(a, (int)(b > 0 ? 5 : -7)))            \
	X(nextafterf(a, b))                            \
	X(a < b ? 1.0f : 2.0f)                         \
	X(a <= b ? 1.0f : 2.0f)                        \
	X(!(a < b) && !(a >= b) ? 1.0f : 2.0f)         \
	X(a != b ? 1.0f : 2.0f)                        \
	X((float)(s32)(a > -1e9f && a < 1e9f ? a : 0)) \
	X((float)(double)a)                            \
	X((float)((double)a * (double)b))              \
	X(half_round(a))

/* double a, b, c; the result is a double */
#define DOUBLE_CASES(X)                          \
	X(dadd_rn(a, b))                         \
	X(dadd_rz(a, b))                         \
	X(dmul_ru(a, b))                         \
	X(dmul_rn(a, b))                         \
	X(dfma_rn(a, b, c))                      \
	X(dfma_rd(a, b, c))                      \
	X(ddiv_rn(a, b))                         \
	X(ddiv_rz(a, b))                         \
	X(dsqrt_rn(a))                           \
	X(dsqrt_ru(a))                           \
	X(drcp_rn(a))                            \
	X(dlesser(a, b))                         \
	X(dgreater(a, b))                        \
	X(floor(a))                              \
	X(ceil(a))                               \
	X(trunc(a))                              \
	X(rint(a))                               \
	X(round(a))                              \
	X(fabs(a))                               \
	X(copysign(a, b))                        \
	X(fmod(a, b))                            \
	X(a < b ? a : c)                         \
	X(a >= b ? 1.0 : 2.0)                    \
	X((double)(float)a)                      \
	X((double)(s64)(fabs(a) < 1e18 ? a : 0)) \
	X((double)(u32)(a > 0 && a < 4e9 ? a : 0))

/* float x to integers, as 64 bits */
#define TO_INTEGER_CASES(X)        \
	X((u64)(s64)to_s32_rn(x))  \
	X((u64)(s64)to_s32_rz(x))  \
	X((u64)(s64)to_s32_ru(x))  \
	X((u64)(s64)to_s32_rd(x))  \
	X(to_u32_rz(x))            \
	X((u64)to_s64_rz(x))       \
	X((u64)to_s64_rn(x))       \
	X(to_u64_rz(x))            \
	X((u64)(s64)dto_s32_rn(x)) \
	X((u64)dto_s64_rd(x))      \
	X(dto_u64_rz(x))

/* u64 x to floating point, as the bits of a double */
#define FROM_INTEGER_CASES(X)   \
	X(from_s32_rn((s32)x))  \
	X(from_s32_rz((s32)x))  \
	X(from_u32_ru((u32)x))  \
	X(from_s64_rn((s64)x))  \
	X(from_u64_rd(x))       \
	X(dfrom_s64_rn((s64)x)) \
	X(dfrom_u64_rz(x))      \
	X((double)(s32)x)       \
	X((double)(u16)x)       \
	X((float)(s8)x)

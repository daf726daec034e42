/* SPDX-License-Identifier: MIT */
/* The programs here share this: a call that must succeed, a condition that must hold. */
#include <cstdio>
#include <cstdlib>

#define GOOD(call)                                                                         \
	do {                                                                               \
		cudaError_t error_ = (call);                                               \
		if (error_ != cudaSuccess) {                                               \
			std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
			             cudaGetErrorString(error_));                          \
			std::exit(1);                                                      \
		}                                                                          \
	} while (0)

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, \
			             #condition);                                       \
			std::exit(1);                                                   \
		}                                                                       \
	} while (0)

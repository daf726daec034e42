/* SPDX-License-Identifier: MIT */
/*
 * The library that all generated ones need (tools/wheels/library_write.h): a function of theirs
 * names itself once on stderr and answers its record's status. It never answers success.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tools/wheels/stand_in.h"

__attribute__((visibility("default"))) uintptr_t softgpu_refuse(struct stand_in *it);

uintptr_t softgpu_refuse(struct stand_in *it)
{
	if (!__atomic_exchange_n(&it->is_said, 1, __ATOMIC_RELAXED) && !getenv("SOFTGPU_QUIET"))
		fprintf(stderr, "softgpu: %s is not supported\n", (const char *)it + it->name);
	switch (it->kind) {
	case STAND_IN_STATUS:
		return (uintptr_t)it->status;
	case STAND_IN_TEXT:
		return (uintptr_t) "not supported by the software GPU";
	}
	abort();
}

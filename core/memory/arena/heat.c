/* SPDX-License-Identifier: MIT */
/* Heat: its globals. Apart from arena.c, which tests replace. */
#include "core/memory/arena/heat.h"

_Atomic(const struct placement_calls *) placement_calls;
_Atomic uint32_t heat_sampling;
__thread struct heat_countdown heat_countdown __attribute__((tls_model("initial-exec")));

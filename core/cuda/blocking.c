/* SPDX-License-Identifier: MIT */
/* The mark that blocking streams leave. */
#include "core/cuda/blocking.h"

_Atomic bool blocking_streams;

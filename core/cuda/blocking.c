/* Whether there were blocking streams. */
#include "core/cuda/blocking.h"

_Atomic bool blocking_streams;

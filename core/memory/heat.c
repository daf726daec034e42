#include "core/memory/heat.h"
#include <time.h>
uint32_t heat_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint32_t)(t.tv_sec * 1000 + t.tv_nsec / 1000000) | 1;
}
enum heat heat_of(uint32_t touched, uint32_t now)
{
	return !touched ? HEAT_WARM : now - touched < 2000 ? HEAT_HOT : HEAT_COLD;
}

/* Shortage. Rules: runs inside the user's process, within its calls; errno is kept. */
#include "core/budget/shortage.h"

#include "core/base/clock.h"

_Atomic uint32_t shortage_called;

void shortage_say(void)
{
	clock_in_use->wake(&shortage_called);
}

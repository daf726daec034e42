/* SPDX-License-Identifier: MIT */
/* Late memory. Rules: runs inside the user's process; it is mapped and never given back. */
#include "core/base/late.h"

#include <errno.h>
#include <sys/mman.h>

void *late_make(_Atomic(void *) *place, size_t size)
{
	void *there = late_of(place), *made;
	int saved = errno;

	if (there)
		return there;
	made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	            -1, 0);
	if (made != MAP_FAILED && !atomic_compare_exchange_strong(place, &there, made))
		munmap(made, size);
	else
		there = made == MAP_FAILED ? NULL : made;
	errno = saved;
	return there;
}

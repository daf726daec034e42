/* SPDX-License-Identifier: MIT */
/*
 * write_companion FILE NAME...: writes a companion library with these functions, for the machine
 * for which this program was built. `spillway run` does it for its own machine alone.
 */
#include <stdlib.h>

#include "core/base/driver_library.h"
#include "tools/view/tool.h"
#include "tools/wheels/library_write.h"

void *allocate(size_t size)
{
	return calloc(1, size);
}

int main(int argc, char **argv)
{
	const struct library_form form = {.soname = COMPANION_LIBRARY,
	                                  .needed = DRIVER_LIBRARY,
	                                  .common = COMPANION_COMMON,
	                                  .keeps_arguments = true};
	struct library_function functions[16] = {0};
	size_t count = 0;

	for (int i = 2; i < argc && count < 16; i++)
		functions[count++] = (struct library_function){argv[i], "", STAND_IN_STATUS};
	return library_write(argv[1], &form, functions, count) ? 0 : 1;
}

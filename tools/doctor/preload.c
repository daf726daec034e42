/* SPDX-License-Identifier: MIT */
#include "tools/doctor/preload.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor/paths.h"
#include "tools/view/tool.h"

void preload_machine_list(char *list, size_t size)
{
	FILE *file = fopen(PRELOAD_MACHINE_LIST, "re");

	list[file ? fread(list, 1, size - 1, file) : 0] = '\0';
	if (file)
		fclose(file);
}

char *preload_find(const char *list, const char *library)
{
	static const char between[] = ": \t\n";

	for (list += strspn(list, between); *list; list += strspn(list, between)) {
		int length = (int)strcspn(list, between);
		char *entry = text("%.*s", length, list);
		bool loads = !strchr(entry, '/') || access(entry, R_OK) == 0;

		list += length;
		if (loads && (strcmp(paths_base(entry), paths_base(library)) == 0 ||
		              (paths_is_shim(entry) && paths_is_shim(library))))
			return entry;
		free(entry);
	}
	return NULL;
}

/* SPDX-License-Identifier: MIT */
/* Lookup tables, whatever their kind. Rules: runs inside the user's process. */
#include "core/registry/lookup_table.h"

#include <errno.h>
#include <string.h>

size_t lookup_table_find(struct lookup_table *table, const uint64_t *keys, size_t n, void *values,
                         const void *fallback)
{
	char *value = values;
	size_t found = 0;

	table->kind->begin(table);
	for (size_t i = 0; i < n; i++, value += table->value_size) {
		if (table->kind->find(table, keys[i], value))
			found++;
		else if (fallback)
			memcpy(value, fallback, table->value_size);
	}
	table->kind->end(table);
	return found;
}

int lookup_table_insert(struct lookup_table *table, const uint64_t *keys, const void *values,
                        size_t n)
{
	const char *value = values;
	int error = 0;

	if (!table->kind->insert)
		return -EROFS;
	table->kind->begin(table);
	for (size_t i = 0; i < n && !error; i++, value += table->value_size)
		error = table->kind->insert(table, keys[i], value);
	table->kind->end(table);
	return error;
}

size_t lookup_table_count(struct lookup_table *table)
{
	table->kind->begin(table);
	size_t count = table->kind->count(table);
	table->kind->end(table);
	return count;
}

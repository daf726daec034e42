/* Columns of text. */
#include "tools/formats/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/printable.h"
#include "tools/view/tool.h"

static void add(struct table *table, char *cell)
{
	table->cell = grow(table->cell, table->cells, sizeof *table->cell);
	table->cell[table->cells++] = printable(cell);
}

void table_start(struct table *table, const char *const *headings)
{
	*table = (struct table){0};
	for (; *headings && table->columns < TABLE_COLUMNS; headings++) {
		add(table, text("%s", *headings));
		table->columns++;
	}
}

void table_cell(struct table *table, const char *format, ...)
{
	va_list list;
	char *cell;

	va_start(list, format);
	if (vasprintf(&cell, format, list) < 0)
		fail("out of memory");
	va_end(list);
	add(table, cell);
}

void table_end(struct table *table, FILE *out)
{
	int width[TABLE_COLUMNS] = {0};
	bool left[TABLE_COLUMNS] = {false};

	for (int i = 0; i < table->columns; i++) {
		left[i] = *table->cell[i] == '<';
		if (left[i])
			memmove(table->cell[i], table->cell[i] + 1, strlen(table->cell[i]));
	}
	for (int i = 0; i < table->cells; i++) {
		int length = (int)strlen(table->cell[i]);

		if (length > width[i % table->columns])
			width[i % table->columns] = length;
	}
	for (int i = 0; i < table->cells; i++) {
		int column = i % table->columns;
		bool last = column == table->columns - 1;

		if (left[column])
			fprintf(out, "%-*s", last ? 0 : width[column], table->cell[i]);
		else
			fprintf(out, "%*s", width[column], table->cell[i]);
		fputs(last ? "\n" : "  ", out);
		free(table->cell[i]);
	}
	free(table->cell);
}

/* SPDX-License-Identifier: MIT */
/* Columns of text. */
#include "tools/formats/table.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/printable.h"
#include "core/base/units.h"
#include "tools/view/tool.h"

static void table_add(struct table *table, char *cell)
{
	table->cell = grow(table->cell, table->cells, sizeof *table->cell);
	table->cell[table->cells++] = printable(cell);
}

void table_start(struct table *table, const char *const *headings)
{
	*table = (struct table){0};
	for (; *headings && table->columns < TABLE_COLUMNS; headings++) {
		table_add(table, text("%s", *headings));
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
	table_add(table, cell);
}

/* Returns the longest allowed line; INT_MAX where it is unknown. */
static int table_line_length(FILE *out)
{
	const char *columns = getenv("COLUMNS");
	uint64_t given;
	struct winsize size;

	if (columns && units_parse_count(columns, &given) == 0 && given > 0 && given < INT_MAX)
		return (int)given;
	if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return INT_MAX;
}

/* Returns the width of each column, and takes the "<" from the headings of those that stand left.
 */
static void table_measure(const struct table *table, int width[TABLE_COLUMNS],
                          bool left[TABLE_COLUMNS])
{
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
}

/* Leaves out dispensable columns until the lines are short enough. */
static void table_leave_out(const struct table *table, int width[TABLE_COLUMNS], int most)
{
	int length = -2;

	for (int i = 0; i < table->columns; i++)
		length += width[i] + 2;
	for (const int *column = table->dispensable; column && *column && length > most; column++) {
		length -= width[*column] + 2;
		width[*column] = 0;
	}
}

/* Returns the column behind those that a line has room for, beside the first. */
static int last_fitting(const struct table *table, const int width[TABLE_COLUMNS], int first,
                        int most)
{
	int length = width[0], column = first;

	while (column < table->columns &&
	       (column == first || !width[column] || length + 2 + width[column] <= most)) {
		length += width[column] ? 2 + width[column] : 0;
		column++;
	}
	return column;
}

static void print_row(char *const *cell, const int width[TABLE_COLUMNS],
                      const bool left[TABLE_COLUMNS], int from, int end, FILE *out)
{
	while (end > from && !width[end - 1])
		end--; /* a column that is left out at the end needs no spaces before it */
	for (int i = 0; i < end; i = i ? i + 1 : from) {
		if (!width[i])
			continue;
		if (i)
			fputs("  ", out);
		if (!left[i])
			fprintf(out, "%*s", width[i], cell[i]);
		else
			fprintf(out, "%-*s", i == end - 1 ? 0 : width[i], cell[i]);
	}
	fputc('\n', out);
}

void table_end(struct table *table, FILE *out)
{
	int width[TABLE_COLUMNS] = {0}, most = table_line_length(out);
	bool left[TABLE_COLUMNS] = {false};

	table_measure(table, width, left);
	table_leave_out(table, width, most);
	for (int from = 1; from < table->columns;) {
		int end = table->folds ? last_fitting(table, width, from, most) : table->columns;

		for (int i = 0; i < table->cells; i += table->columns)
			print_row(&table->cell[i], width, left, from, end, out);
		from = end;
	}
	for (int i = 0; i < table->cells; i++)
		free(table->cell[i]);
	free(table->cell);
}

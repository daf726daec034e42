/* SPDX-License-Identifier: MIT */
/*
 * Columns of text, each as wide as its widest cell. For example, a column with the cells "7" and
 * "1.5 GiB" is seven characters wide. Control characters are shown as '?': cells hold names from
 * other processes, and a terminal must not obey them.
 */
#ifndef SPILLWAY_TABLE_H
#define SPILLWAY_TABLE_H

#include <stdbool.h>
#include <stdio.h>

enum { TABLE_COLUMNS = 16 };

struct table {
	int columns;
	int cells;
	char **cell;
	/* Columns that go, in this order, where the lines are too long; ended by 0. NULL: none. */
	const int *dispensable;
	bool folds; /* a row that is too long goes on below, after its first column once more */
};

/*
 * Starts a table with one heading per column; "<" before it puts the column's text to the left,
 * else it stands right.
 */
void table_start(struct table *table, const char *const *headings);
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Prints it and frees it. Where lines are longer than the terminal, or than COLUMNS, columns go
 * that are dispensable, and the table folds if it may.
 */
void table_end(struct table *table, FILE *out);

#endif

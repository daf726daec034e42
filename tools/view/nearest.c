/* How far one word is from another. */
#include "tools/view/nearest.h"

#include <stdint.h>
#include <string.h>

static size_t smallest(size_t a, size_t b, size_t c)
{
	size_t least = a < b ? a : b;

	return least < c ? least : c;
}

size_t nearest_distance(const char *from, const char *to)
{
	enum { LONGEST = 32 };
	size_t row[LONGEST + 1];
	size_t length = strlen(to);

	if (length > LONGEST)
		return SIZE_MAX;
	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 1; *from; i++, from++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= length; j++) {
			size_t above = row[j];

			row[j] =
			    smallest(above + 1, row[j - 1] + 1, diagonal + (*from != to[j - 1]));
			diagonal = above;
		}
	}
	return row[length];
}

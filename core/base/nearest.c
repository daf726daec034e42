/* SPDX-License-Identifier: MIT */
/* How far one word is from another. */
#include "core/base/nearest.h"

#include <string.h>

enum { WORD_MAX = 48 };

int nearest_distance(const char *from, const char *to)
{
	int row[WORD_MAX + 1];
	int from_length = (int)strnlen(from, WORD_MAX);
	int to_length = (int)strnlen(to, WORD_MAX);

	for (int j = 0; j <= to_length; j++)
		row[j] = j;
	for (int i = 1; i <= from_length; i++) {
		int diagonal = row[0];

		row[0] = i;
		for (int j = 1; j <= to_length; j++) {
			int best = diagonal + (from[i - 1] != to[j - 1]);

			if (best > row[j] + 1)
				best = row[j] + 1;
			if (best > row[j - 1] + 1)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[to_length];
}

const char *nearest_word(const char *word, const char *const *words)
{
	const char *nearest = NULL;
	int least = NEAREST_SLIP + 1;

	for (; *words; words++) {
		int distance = nearest_distance(word, *words);

		if (distance < least) {
			least = distance;
			nearest = *words;
		}
	}
	return nearest;
}

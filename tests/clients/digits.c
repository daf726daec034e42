/* SPDX-License-Identifier: MIT */
/* The handwritten digits; see digits.h. */
#include "tests/clients/digits.h"

#include "tests/clients/program.h"

#include <stdlib.h>

uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

void random_shuffle(uint64_t *state, uint32_t *numbers, uint32_t count)
{
	for (uint32_t i = count; i > 1; i--) {
		uint32_t j = random_next(state) % i;
		uint32_t swapped = numbers[i - 1];
		numbers[i - 1] = numbers[j];
		numbers[j] = swapped;
	}
}

/* One number and the character after it. */
static unsigned field(char **text, unsigned max, char after)
{
	char *end;
	unsigned long value = strtoul(*text, &end, 10);

	if (end == *text || *end != after || value > max)
		program_die("digits.csv: expected 0..%u before '%c' at \"%.20s\"", max,
		            after == '\n' ? '$' : after, *text);
	*text = end + 1;
	return value;
}

struct digits *digits_read(void)
{
	/* The split must be the same for every seed: runs of other seeds are compared by accuracy.
	 */
	uint64_t split_seed = 7;
	uint32_t place[DIGITS_COUNT];
	struct digits *digits = malloc(sizeof(*digits));
	char *text = program_read_beside("digits.csv");
	char *at = text;

	if (!digits)
		program_die("out of memory");
	for (uint32_t i = 0; i < DIGITS_COUNT; i++)
		place[i] = i;
	random_shuffle(&split_seed, place, DIGITS_COUNT);
	for (uint32_t i = 0; i < DIGITS_COUNT; i++) {
		for (int pixel = 0; pixel < DIGITS_PIXELS; pixel++)
			digits->pixels[place[i]][pixel] = field(&at, 16, ',');
		digits->labels[place[i]] = field(&at, DIGITS_CLASSES - 1, '\n');
	}
	free(text);
	return digits;
}

/* SPDX-License-Identifier: MIT */
/*
 * The contents of an allocation: word i is i * factor + term, modulo 2^32. Both come from the
 * allocation's number. A number that kernels add is added to the term, so the words are known at
 * any time without being kept.
 */
#ifndef CHAOS_PATTERN_H
#define CHAOS_PATTERN_H

#include <stddef.h>
#include <stdint.h>

struct pattern {
	uint32_t factor, term;
};

/*
 * Differs in both words from that of other numbers; even: all words are alike, as a fill makes
 * them.
 */
struct pattern pattern_of(uint64_t number, int is_flat);
void pattern_write(struct pattern pattern, uint32_t *words, size_t count);
/* Returns the first word that differs, or count. */
size_t pattern_compare(struct pattern pattern, const uint32_t *words, size_t count);

/*
 * Kernels over (address, words, factor, term): affine writes the pattern, add adds the term to each
 * word.
 */
extern const char pattern_kernels[];

#endif

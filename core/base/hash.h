/* SPDX-License-Identifier: MIT */
/*
 * Hashes (FNV-1a) of bytes, texts and words: the same on every machine and in every version, as
 * files and handles hold some. Hashes of parts are chained: each begins with the last one.
 */
#ifndef SPILLWAY_HASH_H
#define SPILLWAY_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_NOTHING UINT64_C(14695981039346656037)

static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
	return (hash ^ word) * UINT64_C(1099511628211);
}

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = hash_word(hash, ((const unsigned char *)bytes)[i]);
	return hash;
}

static inline uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = hash_word(hash, (unsigned char)*text);
	return hash;
}

#endif

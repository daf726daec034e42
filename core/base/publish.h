/* SPDX-License-Identifier: MIT */
/*
 * The one way to publish several words together.
 *
 * There are two copies of the value, and one word, the version, says which of them is good. A
 * writer fills the other one and then stores the version. So a writer that is killed anywhere
 * leaves the old value, whole, and the next writer begins again. A reader copies and looks whether
 * the version is still the same. It does not wait: where writers are quicker, so often that it
 * gives up, it says so.
 *
 * Writers exclude each other by a lock of theirs. The value is a multiple of 8 bytes; all zero, and
 * version 0, until the first.
 */
#ifndef SPILLWAY_PUBLISH_H
#define SPILLWAY_PUBLISH_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A place for values of a type: in this process, in a mapped file, or in a copy of one. */
#define PUBLISHED(type)                                     \
	struct {                                            \
		_Atomic uint64_t version;                   \
		_Atomic uint64_t word[2][sizeof(type) / 8]; \
	}

/* Publishes *value in *place. Returns the version that it has. */
#define publish_value(place, value) \
	publish_words(&(place)->version, (place)->word[0], value, PUBLISH_WORDS(place, value))
/*
 * Copies the value in *place to *value. Returns whether it is whole; *of_version: as
 * publish_value() returned it.
 */
#define publish_read(place, value, of_version)                         \
	publish_read_words(&(place)->version, (place)->word[0], value, \
	                   PUBLISH_WORDS(place, value), of_version)
/* Returns the version of the value that stands there. */
#define publish_version(place) atomic_load_explicit(&(place)->version, memory_order_acquire)

/* The words of a value, which must be one of the place's type. */
#define PUBLISH_WORDS(place, value)                                                                \
	(sizeof(*(value)) / 8 +                                                                    \
	 0 * sizeof(char[sizeof((place)->word[0]) == sizeof(*(value)) && sizeof(*(value)) % 8 == 0 \
	                     ? 1                                                                   \
	                     : -1]))

uint64_t publish_words(_Atomic uint64_t *version, _Atomic uint64_t *copies, const void *value,
                       size_t count);
bool publish_read_words(const _Atomic uint64_t *version, const _Atomic uint64_t *copies,
                        void *value, size_t count, uint64_t *read_version);

#endif

/* SPDX-License-Identifier: MIT */
/* Publishing several words together. Rules: runs inside the user's process; no lock, no wait. */
#include "core/base/publish.h"

#include <string.h>

#include "core/base/deadline.h"

/* Each try fails only where two values were published while one was copied. */
#define PATIENCE_NS 1000000ull

uint64_t publish_words(_Atomic uint64_t *version, _Atomic uint64_t *copies, const void *value,
                       size_t count)
{
	uint64_t next = atomic_load_explicit(version, memory_order_relaxed) + 1;
	_Atomic uint64_t *copy = copies + (next % 2) * count;

	for (size_t i = 0; i < count; i++) {
		uint64_t word;

		memcpy(&word, (const char *)value + 8 * i, sizeof(word));
		/* release: a reader of it sees the version of the other copy, too */
		atomic_store_explicit(&copy[i], word, memory_order_release);
	}
	atomic_store_explicit(version, next, memory_order_release);
	return next;
}

bool publish_read_words(const _Atomic uint64_t *version, const _Atomic uint64_t *copies,
                        void *value, size_t count, uint64_t *read_version)
{
	struct deadline until = DEADLINE_IN(PATIENCE_NS);

	do {
		uint64_t now = atomic_load_explicit(version, memory_order_acquire);
		const _Atomic uint64_t *copy = copies + (now % 2) * count;

		for (size_t i = 0; i < count; i++) {
			uint64_t word = atomic_load_explicit(&copy[i], memory_order_acquire);

			memcpy((char *)value + 8 * i, &word, sizeof(word));
		}
		if (atomic_load_explicit(version, memory_order_relaxed) == now) {
			*read_version = now;
			return true;
		}
	} while (!deadline_has_passed(&until));
	return false;
}

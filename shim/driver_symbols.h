/* SPDX-License-Identifier: MIT */
/*
 * Finding a driver's functions: dlsym()'s answers, without asking it for each of hundreds.
 *
 * Where nothing but the driver itself can have a symbol, because it needs none but glibc's own
 * libraries, and its symbol is a plain one, the driver's table is read. dlsym() is asked for the
 * rest: a driver without such a table, an indirect or versioned symbol, a loader that is audited.
 */
#ifndef SPILLWAY_SHIM_DRIVER_SYMBOLS_H
#define SPILLWAY_SHIM_DRIVER_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct driver_symbols {
	void *handle;
	uintptr_t base;
	const ElfW(Sym) * symbol;
	const char *names;
	const ElfW(Half) * version; /* of each symbol; NULL: they have none */
	/* a GNU hash table; buckets NULL: dlsym() is asked for everything */
	const uint32_t *buckets, *chains;
	const ElfW(Addr) * filter;
	uint32_t bucket_count, first, filter_mask, filter_shift;
};

/* Reads the tables once, for a handle that dlopen() returned. */
void driver_symbols_read(struct driver_symbols *symbols, void *handle);
/* Returns dlsym(handle, name)'s answer. name: one that none of glibc's libraries has. */
void *driver_symbol(const struct driver_symbols *symbols, const char *name);

#endif

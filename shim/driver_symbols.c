/* SPDX-License-Identifier: MIT */
/*
 * Reading a driver's symbols. Rules: the table is the loader's, which has judged it; a look-up
 * takes no lock.
 */
#include "shim/driver_symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

/*
 * The loader has written this under its own lock, which dlopen() has taken since, and of which the
 * thread sanitizer knows nothing.
 */
#ifdef __SANITIZE_THREAD__
#define OF_THE_LOADER __attribute__((no_sanitize_thread))
#else
#define OF_THE_LOADER
#endif

static bool is_of_glibc(const char *library)
{
	static const char *const libraries[] = {"libc.so.6",       "libm.so.6",  "libdl.so.2",
	                                        "libpthread.so.0", "librt.so.1", NULL};
	static const char loader[] = "ld-linux";

	for (const char *const *l = libraries; *l; l++)
		if (strcmp(*l, library) == 0)
			return true;
	return strncmp(library, loader, sizeof(loader) - 1) == 0;
}

/* Returns the address that an entry holds: glibc has added the load address, on most machines. */
OF_THE_LOADER static const void *address_of(const struct link_map *map, const ElfW(Dyn) * entry)
{
	uintptr_t address = entry->d_un.d_ptr;

	return (const void *)(address < map->l_addr ? map->l_addr + address : address);
}

/* Takes the table apart: four words, a filter, buckets, and a chain of hashes. */
static void take_hashes(struct driver_symbols *s, const uint32_t *table)
{
	uint32_t filter_words = table[2];

	s->bucket_count = table[0];
	s->first = table[1];
	s->filter_mask = filter_words - 1;
	s->filter_shift = table[3];
	s->filter = (const ElfW(Addr) *)(table + 4);
	if (!s->bucket_count || !filter_words || filter_words & s->filter_mask)
		return;
	s->buckets = (const uint32_t *)(s->filter + filter_words);
	s->chains = s->buckets + s->bucket_count;
}

OF_THE_LOADER void driver_symbols_read(struct driver_symbols *s, void *handle)
{
	const struct link_map *map;
	const uint32_t *table = NULL;
	bool is_alone = !getenv("LD_AUDIT");

	*s = (struct driver_symbols){.handle = handle};
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
		return;
	s->base = map->l_addr;
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			s->symbol = address_of(map, d);
		else if (d->d_tag == DT_STRTAB)
			s->names = address_of(map, d);
		else if (d->d_tag == DT_VERSYM)
			s->version = address_of(map, d);
		else if (d->d_tag == DT_GNU_HASH)
			table = address_of(map, d);
	}
	for (const ElfW(Dyn) *d = map->l_ld; s->names && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_NEEDED)
			is_alone &= is_of_glibc(s->names + d->d_un.d_val);
	if (is_alone && s->symbol && s->names && table)
		take_hashes(s, table);
}

/*
 * Returns the hash of the table; of two letters at a time, because each step waits for the one
 * before.
 */
static uint32_t driver_symbols_hash_of(const char *name)
{
	const unsigned char *c = (const unsigned char *)name;
	uint32_t hash = 5381;

	for (; c[0] && c[1]; c += 2)
		hash = hash * (33 * 33) + c[0] * 33U + c[1];
	return c[0] ? hash * 33 + c[0] : hash;
}

/* Returns whether the loader always takes this symbol for the name. */
static bool driver_symbols_is_plain(const struct driver_symbols *s, uint32_t i)
{
	enum { HIDDEN_OR_NUMBER = 0x7fff, FIRST_OF_VERSIONS = 2 };
	const ElfW(Sym) *symbol = &s->symbol[i];
	unsigned char binding = ELF64_ST_BIND(symbol->st_info);

	return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_value &&
	       symbol->st_shndx != SHN_UNDEF && symbol->st_shndx < SHN_LORESERVE &&
	       (binding == STB_GLOBAL || binding == STB_WEAK) &&
	       ELF64_ST_VISIBILITY(symbol->st_other) == STV_DEFAULT &&
	       (!s->version || (s->version[i] & HIDDEN_OR_NUMBER) < FIRST_OF_VERSIONS);
}

void *driver_symbol(const struct driver_symbols *s, const char *name)
{
	enum { BITS = 8 * sizeof(ElfW(Addr)) };
	uint32_t hash, i;
	ElfW(Addr) bits;

	if (!s->buckets)
		return dlsym(s->handle, name);
	hash = driver_symbols_hash_of(name);
	bits = s->filter[hash / BITS & s->filter_mask];
	if (!(bits >> hash % BITS & bits >> (hash >> s->filter_shift) % BITS & 1))
		return NULL;
	i = s->buckets[hash % s->bucket_count];
	if (i < s->first)
		return NULL;
	for (;; i++) {
		uint32_t found = s->chains[i - s->first];

		if ((found ^ hash) >> 1 == 0 && strcmp(s->names + s->symbol[i].st_name, name) == 0)
			return driver_symbols_is_plain(s, i)
			           ? (void *)(s->base + s->symbol[i].st_value)
			           : dlsym(s->handle, name);
		if (found & 1) /* the chain's last */
			return NULL;
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * export_tables LIBRARY FUNCTION: asks the library for NVIDIA's private tables, by which libcudart,
 * CUPTI and nvidia-smi reach past the public functions. Prints each pointer of a table as its place
 * in the file that it leads into, so that two processes can be compared.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { POINTERS_MOST = 256 };

/* Tables that programs ask for, by the names under which they are known. */
static const struct {
	const char *name;
	unsigned char id[16];
} tables[] = {
    {"tools, thread-local state",
     {0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
      0xdc}},
    {"tools, callbacks of the runtime",
     {0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
      0x66}},
    {"runtime",
     {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
      0xf9}},
    {"context-local storage",
     {0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
      0x93}},
    {"creation of contexts",
     {0x0c, 0xa5, 0x0b, 0x8c, 0x10, 0x04, 0x92, 0x9a, 0x89, 0xa7, 0xd0, 0xdf, 0x10, 0xe7, 0x72,
      0x86}},
    {"heap",
     {0x19, 0x5b, 0xcb, 0xf4, 0xd6, 0x7d, 0x02, 0x4a, 0xac, 0xc5, 0x1d, 0x29, 0xce, 0xa6, 0x31,
      0xae}},
    {"device",
     {0xb1, 0x05, 0x41, 0xe1, 0xf7, 0xc7, 0xc7, 0x4a, 0x9f, 0x64, 0xf2, 0x23, 0xbe, 0x99, 0xf1,
      0xe2}},
    {"integrity",
     {0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
      0xf2}},
};

static void print_place(const void *pointer)
{
	const char *name;
	Dl_info found;

	if (!pointer || !dladdr(pointer, &found)) {
		printf("  %p\n", pointer);
		return;
	}
	name = strrchr(found.dli_fname, '/');
	printf("  %s+%#lx\n", name ? name + 1 : found.dli_fname,
	       (unsigned long)((uintptr_t)pointer - (uintptr_t)found.dli_fbase));
}

/* Most tables begin with their size in bytes. Of another the first pointer alone is known. */
static void print_table(const void *const *table)
{
	size_t size = (size_t)table[0];

	print_place(table);
	if (size % sizeof(void *) != 0 || size > POINTERS_MOST * sizeof(void *)) {
		print_place(table[0]);
		return;
	}
	printf("  %zu bytes\n", size);
	for (size_t i = 1; i < size / sizeof(void *); i++)
		print_place(table[i]);
}

int main(int argc, char **argv)
{
	void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*ask)(const void **, const void *) =
	    library ? (int (*)(const void **, const void *))dlsym(library, argv[2]) : NULL;

	if (!ask) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		const void *table = NULL;
		int result = ask(&table, tables[i].id);

		printf("%s: %d\n", tables[i].name, result);
		if (result == 0 && table)
			print_table(table);
	}
	return 0;
}

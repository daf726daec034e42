/* SPDX-License-Identifier: MIT */
/*
 * Parameters of kernels from images: cubins as ptxas writes them, fat binaries, and broken ones;
 * and the kernels to which they belong.
 */
#include <check.h>
#include <elf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/modules/placement/parameters.h"
#include "core/registry/object.h"
#include "images.h"
#include "suite.h"

/* Before the driver told of parameters. */
static CUresult version(int *number)
{
	*number = 12020;
	return CUDA_SUCCESS;
}

static CUresult no_info(CUfunction function, size_t index, size_t *offset, size_t *size)
{
	(void)function, (void)index, (void)offset, (void)size;
	return CUDA_ERROR_NOT_SUPPORTED;
}

struct driver driver = {.cuDriverGetVersion = version, .cuFuncGetParamInfo = no_info};

/* --- what is found, as text: "name(index:words ...) ..." --- */

static char told[4096];

static void tell(void *cookie, const char *name, size_t length, struct parameters *p)
{
	char *at = told + strlen(told);

	(void)cookie;
	at += sprintf(at, "%s%.*s(", *told ? " " : "", (int)length, name);
	for (size_t i = 0; i < p->count; i++)
		at += sprintf(at, "%s%u:%u", i ? " " : "", p->parameter[i].index,
		              p->parameter[i].words);
	sprintf(at, ")");
	free(p);
}

static const char *kernels_of(const void *image)
{
	*told = '\0';
	image_each_kernel(image, tell, NULL);
	return told;
}

/* --- cubins --- */

/* .nv.info.three of ptxas 13.0 for sm_80, cut: (float *, int, 40 bytes, char, double *). */
static const unsigned char info_three[] = {
    4, 0x0a, 8,  0, 8, 0, 0, 0, 0x60, 1, 0x48, 0, 3,    0x19, 72,   0,
    4, 0x17, 12, 0, 0, 0, 0, 0, 4,    0, 0x40, 0, 0x00, 0xf0, 0x21, 0,
    4, 0x17, 12, 0, 0, 0, 0, 0, 3,    0, 0x38, 0, 0x00, 0xf0, 0x05, 0,
    4, 0x17, 12, 0, 0, 0, 0, 0, 2,    0, 0x10, 0, 0x00, 0xf0, 0xa1, 0,
    4, 0x17, 12, 0, 0, 0, 0, 0, 1,    0, 0x08, 0, 0x00, 0xf0, 0x11, 0,
    4, 0x17, 12, 0, 0, 0, 0, 0, 0,    0, 0x00, 0, 0x00, 0xf0, 0x21, 0};
/* And of a kernel with 5,000 bytes in one parameter, whose sizes have more bits. */
static const unsigned char info_big[] = {4, 0x45, 12, 0, 0,    0,    0,  0, 1, 0,    0x88, 0x13,
                                         8, 0,    0,  5, 4,    0x45, 12, 0, 0, 0,    0,    0,
                                         0, 0,    0,  0, 0x88, 0x13, 0,  0, 3, 0x50, 0,    0};
static const char names[] = "\0.shstrtab\0.nv.info.three\0.nv.info.big\0.nv.info";

struct cubin {
	Elf64_Ehdr header;
	Elf64_Shdr section[5];
	char names[sizeof(names)];
	unsigned char three[sizeof(info_three)], big[sizeof(info_big)];
};

static Elf64_Shdr section(uint32_t name, size_t offset, size_t size)
{
	return (Elf64_Shdr){
	    .sh_name = name, .sh_type = 0x70000000, .sh_offset = offset, .sh_size = size};
}

static struct cubin cubin(void)
{
	struct cubin c = {.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
	                             .e_shoff = offsetof(struct cubin, section),
	                             .e_shentsize = sizeof(Elf64_Shdr),
	                             .e_shnum = 5,
	                             .e_shstrndx = 1}};

	memcpy(c.names, names, sizeof(names));
	memcpy(c.three, info_three, sizeof(info_three));
	memcpy(c.big, info_big, sizeof(info_big));
	c.section[1] = section(1, offsetof(struct cubin, names), sizeof(names));
	c.section[2] = section(11, offsetof(struct cubin, three), sizeof(info_three));
	c.section[3] = section(26, offsetof(struct cubin, big), sizeof(info_big));
	c.section[4] = section(39, offsetof(struct cubin, big), sizeof(info_big));
	return c;
}

START_TEST(cubins)
{
	struct cubin c = cubin();

	ck_assert_str_eq(kernels_of(at_the_edge(&c, sizeof(c))),
	                 "three(4:1 2:5 0:1) big(1:1 0:625)");
	/* An attribute that is longer than its section. */
	c.big[2] = 200;
	ck_assert_str_eq(kernels_of(at_the_edge(&c, sizeof(c))), "three(4:1 2:5 0:1)");
	c = cubin();
	c.section[2].sh_size = UINT64_MAX;
	c.section[3].sh_offset = UINT64_MAX - 4;
	ck_assert_str_eq(kernels_of(at_the_edge(&c, sizeof(c))), "");
	c = cubin();
	c.section[2].sh_name = 1u << 31;
	ck_assert_str_eq(kernels_of(at_the_edge(&c, sizeof(c))), "big(1:1 0:625)");
	c.header.e_shstrndx = 5;
	ck_assert_str_eq(kernels_of(at_the_edge(&c, sizeof(c))), "");
}
END_TEST

enum { PTX_ROOM = 64 };

struct fat {
	struct fat_header header;
	struct fat_entry elf;
	_Alignas(8) struct cubin cubin;
	struct fat_entry text;
	char ptx[PTX_ROOM];
};

static struct fat fat(void)
{
	return (struct fat){
	    .header = fat_header(sizeof(struct fat)),
	    .elf = fat_entry(FAT_CUBIN, offsetof(struct fat, text) - offsetof(struct fat, cubin)),
	    .cubin = cubin(),
	    .text = fat_entry(FAT_PTX, PTX_ROOM),
	    .ptx = ".entry three(.param .u64 a)"};
}

START_TEST(fat_binaries)
{
	struct fat f = fat();

	ck_assert_str_eq(kernels_of(at_the_edge(&f, sizeof(f))),
	                 "three(4:1 2:5 0:1) big(1:1 0:625)");
	f.elf.packed_size = 7;
	ck_assert_str_eq(kernels_of(at_the_edge(&f, sizeof(f))), "");
}
END_TEST

static void take(void *cookie, const char *name, size_t length, struct parameters *p)
{
	*(size_t *)cookie += strnlen(name, length) + p->count;
	free(p);
}

/* Within a fat binary the size is known: whatever is wrong, nothing behind it is read. */
START_TEST(random_damage)
{
	struct fat f = fat();
	unsigned char *image = at_the_edge(&f, sizeof(f));
	unsigned int seed = 4711;
	size_t taken = 0;

	for (int round = 0; round < 200000; round++) {
		memcpy(image, &f, sizeof(f));
		for (int i = rand_r(&seed) % 4; i >= 0; i--) {
			size_t at = offsetof(struct fat, cubin);

			at += (unsigned int)rand_r(&seed) % (sizeof(f) - at);
			/*
			 * The entry in between is the fat binary's own, which the driver has
			 * followed.
			 */
			if (at - offsetof(struct fat, text) < sizeof(f.text))
				continue;
			image[at] = (unsigned char)rand_r(&seed);
		}
		image_each_kernel(image, take, &taken);
	}
	ck_assert_uint_gt(taken, 0);
}
END_TEST

/* --- whose they are --- */

#define MODULE   ((const void *)0x100)
#define OTHER    ((const void *)0x200)
#define TEXT     ((const void *)0x300)
#define FUNCTION ((CUfunction)0x1000)
#define KERNEL   ((CUfunction)0x2000)

/* Words of the first parameter; 0: unknown. */
static unsigned int first(CUfunction function)
{
	const struct parameters *p;
	unsigned int words = 0;

	ck_assert(parameters_hold(function, false, &p));
	if (p && p->count)
		words = p->parameter[0].words;
	parameters_release();
	return words;
}

/* A cubin whose kernels have a first parameter of so many bytes. */
static const void *kernels(uint32_t three, uint32_t big)
{
	enum { THREE_S_BITS = 28, BIG_S_BITS = 12 };
	struct cubin c = cubin();

	three <<= 18;
	memcpy(c.three + THREE_S_BITS, &three, sizeof(three));
	memcpy(c.big + BIG_S_BITS, &big, sizeof(big));
	return at_the_edge(&c, sizeof(c));
}

/* --- the books, in which images are kept for their modules --- */

static struct registry *registry;

static struct resource *find(const void *module)
{
	return registry_lookup_object(registry, NULL, &object_type_module, (uintptr_t)module);
}

/* Loads a module; what the handle stood for before is gone. */
static void load(const void *module, const void *image)
{
	struct resource *object;

	ck_assert_int_eq(object_track(registry, NULL, &object_type_module, module), 0);
	object = find(module);
	placement_tell(loaded, object, image);
	resource_release(object);
}

static void unload(const void *module)
{
	ck_assert_int_eq(
	    registry_delete_object(registry, NULL, &object_type_module, (uintptr_t)module), 0);
}

static void hand_out(CUfunction function, const void *module, const char *name)
{
	struct resource *object = find(module);

	placement_tell(handed_out, function, object, name);
	resource_release(object);
}

START_TEST(functions_have_what_their_image_says)
{
	static struct placement_calls calls;

	parameters_add_calls(&calls);
	atomic_store(&placement_calls, &calls);
	registry = registry_create("parameters", 1, 0);
	ck_assert(registry && placement_ask(false, needs_images));
	load(MODULE, kernels(8, 24));
	load(OTHER, kernels(16, 8));
	/* Nobody knows those of what comes as text. */
	load(TEXT, ".entry three(.param .u64 a)");
	hand_out(FUNCTION, TEXT, "three");
	ck_assert_uint_eq(first(FUNCTION), 0);
	unload(TEXT);
	ck_assert_uint_eq(first(FUNCTION), 0);
	hand_out(FUNCTION, MODULE, "three");
	ck_assert_uint_eq(first(FUNCTION), 1);
	hand_out(FUNCTION, MODULE, "big");
	ck_assert_uint_eq(first(FUNCTION), 3);
	hand_out(FUNCTION, MODULE, "h");
	ck_assert_uint_eq(first(FUNCTION), 0);
	hand_out(FUNCTION, OTHER, "three");
	hand_out(KERNEL, MODULE, "big");
	/* A context's end forgets what the driver said, not what images do. */
	placement_tell(forget_functions);
	ck_assert_uint_eq(first(FUNCTION), 2);
	unload(OTHER);
	ck_assert_uint_eq(first(FUNCTION), 0);
	ck_assert_uint_eq(first(KERNEL), 3);
	placement_tell(are_those_of, FUNCTION, KERNEL);
	ck_assert_uint_eq(first(FUNCTION), 3);
	/* Another module by the same handle. */
	load(MODULE, kernels(40, 8));
	ck_assert_uint_eq(first(FUNCTION), 0);
	hand_out(FUNCTION, MODULE, "three");
	ck_assert_uint_eq(first(FUNCTION), 5);
	placement_tell(are_those_of, KERNEL, (CUfunction)0x9999);
	ck_assert_uint_eq(first(KERNEL), 0);
	unload(MODULE);
	placement_tell(forget_functions);
	ck_assert_uint_eq(first(NULL), 0);
	/* Nobody knows anything of a module that is not in the books. */
	hand_out(FUNCTION, MODULE, "three");
	ck_assert_uint_eq(first(FUNCTION), 0);
	registry_destroy(registry);
	registry = NULL;
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("parameters");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, cubins);
	tcase_add_test(tests, fat_binaries);
	tcase_add_test(tests, random_damage);
	tcase_add_test(tests, functions_have_what_their_image_says);
	return suite_run("parameters", tests);
}

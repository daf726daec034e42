/* SPDX-License-Identifier: MIT */
/*
 * Tests of the memory that images of device code may take: the bound holds, is not wild, and
 * nothing behind an image is read.
 */
#include <check.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/uses/image.h"
#include "images.h"
#include "suite.h"

#define MIB    ((uint64_t)1 << 20)
#define BESIDE (64 * MIB)

static uint64_t most_of_text(const char *ptx)
{
	return image_most(at_the_edge(ptx, strlen(ptx) + 1)) - BESIDE - 16 * strlen(ptx);
}

START_TEST(ptx_is_its_variables)
{
	ck_assert_uint_eq(most_of_text(".version 6.4\n.visible .entry f()\n{\nret;\n}\n"), 0);
	ck_assert_uint_eq(most_of_text(".visible .global .align 8 .b8 a[12582912];\n"), 12582912);
	ck_assert_uint_eq(most_of_text(".global .f32 a[1000][0x10];\n.const .u64 b = 5;"), 64008);
	ck_assert_uint_eq(most_of_text(".global .align 16 .v4 .f32 a[10];"), 160);
	ck_assert_uint_eq(most_of_text(".global .u16 a[] = {1, 2};"), 0);
	/* Instructions and longer names are none; a declaration without an end is none. */
	ck_assert_uint_eq(most_of_text("ld.global.u32 %r1, [%rd1];\n.globals .b8 a[9];"), 0);
	ck_assert_uint_eq(most_of_text(".global .b8 a[4096]"), 0);
	/* Absurd ones saturate, and errno is the program's. */
	errno = 4711;
	ck_assert_uint_eq(
	    image_most(
	        ".global .b64 a[18446744073709551615];.global .b64 b[18446744073709551615];"),
	    UINT64_MAX);
	ck_assert_uint_eq(image_most(".global .b8 a[99999999999999999999];"), UINT64_MAX);
	ck_assert_int_eq(errno, 4711);
}
END_TEST

struct cubin {
	Elf64_Ehdr header;
	Elf64_Shdr section[3];
};

static struct cubin cubin(void)
{
	struct cubin c = {0};

	memcpy(c.header.e_ident, ELFMAG, SELFMAG);
	c.header.e_ident[EI_CLASS] = ELFCLASS64;
	c.header.e_shoff = offsetof(struct cubin, section);
	c.header.e_shnum = 3;
	c.header.e_shentsize = sizeof(Elf64_Shdr);
	c.section[1].sh_type = SHT_PROGBITS;
	c.section[1].sh_size = 3000;
	c.section[2].sh_type = SHT_NOBITS;
	c.section[2].sh_size = 10240 * MIB;
	return c;
}

START_TEST(a_cubin_is_its_sections)
{
	struct cubin c = cubin();

	ck_assert_uint_eq(image_most(at_the_edge(&c, sizeof(c))), BESIDE + 3000 + 10240 * MIB);
	c.section[1].sh_size = UINT64_MAX;
	ck_assert_uint_eq(image_most(&c), UINT64_MAX);
	c = cubin();
	c.header.e_ident[EI_CLASS] = ELFCLASS32;
	ck_assert_uint_eq(image_most(&c), IMAGE_MOST_UNKNOWN);
	c = cubin();
	c.header.e_shnum = 0;
	ck_assert_uint_eq(image_most(&c), IMAGE_MOST_UNKNOWN);
	c = cubin();
	c.header.e_shentsize = 8;
	ck_assert_uint_eq(image_most(&c), IMAGE_MOST_UNKNOWN);
	c = cubin();
	c.header.e_shoff = UINT64_MAX - 64;
	ck_assert_uint_eq(image_most(&c), IMAGE_MOST_UNKNOWN);
}
END_TEST

enum { PTX_ROOM = 32 };

struct fat {
	struct fat_header header;
	struct fat_entry elf;
	struct cubin cubin;
	struct fat_entry text;
	char ptx[PTX_ROOM];
};

static struct fat fat(void)
{
	return (struct fat){.header = fat_header(sizeof(struct fat)),
	                    .elf = fat_entry(FAT_CUBIN, sizeof(struct cubin)),
	                    .cubin = cubin(),
	                    .text = fat_entry(FAT_PTX, PTX_ROOM),
	                    .ptx = ".global .b8 a[4294967296];"};
}

START_TEST(a_fat_binary_is_its_largest_piece)
{
	struct fat f = fat();
	struct {
		uint32_t magic, version;
		const void *fatbin;
	} wrapper = {0x466243b1U, 1, at_the_edge(&f, sizeof(f))};

	ck_assert_uint_eq(image_most(wrapper.fatbin), BESIDE + 3000 + 10240 * MIB);
	ck_assert_uint_eq(image_most(&wrapper), BESIDE + 3000 + 10240 * MIB);
	f.cubin.section[2].sh_size = 0;
	ck_assert_uint_eq(image_most(at_the_edge(&f, sizeof(f))), BESIDE + 26 * 16 + 4096 * MIB);
	/* Packed ones say nothing. */
	f.elf.packed_size = f.text.packed_size = 7;
	ck_assert_uint_eq(image_most(at_the_edge(&f, sizeof(f))), IMAGE_MOST_UNKNOWN);
	wrapper.fatbin = NULL;
	ck_assert_uint_eq(image_most(&wrapper), IMAGE_MOST_UNKNOWN);
}
END_TEST

START_TEST(a_broken_fat_binary_is_not_followed)
{
	struct fat f = fat();

	f.elf.size = UINT64_MAX - 8;
	ck_assert_uint_eq(image_most(at_the_edge(&f, sizeof(f))), IMAGE_MOST_UNKNOWN);
	f = fat();
	f.elf.header_size = 4;
	ck_assert_uint_eq(image_most(at_the_edge(&f, sizeof(f))), IMAGE_MOST_UNKNOWN);
	f = fat();
	f.text.size = 33;
	ck_assert_uint_eq(image_most(at_the_edge(&f, sizeof(f))), IMAGE_MOST_UNKNOWN);
	f = fat();
	f.cubin.header.e_shoff = sizeof(struct cubin);
	ck_assert_uint_eq(image_most(at_the_edge(&f, sizeof(f))), BESIDE + 26 * 16 + 4096 * MIB);
	f = fat();
	f.header.header_size = 4;
	ck_assert_uint_eq(image_most(at_the_edge(&f, sizeof(f))), IMAGE_MOST_UNKNOWN);
	ck_assert_uint_eq(image_most(NULL), IMAGE_MOST_UNKNOWN);
	/* Intermediate code of some kind. */
	ck_assert_uint_eq(image_most("\x7fNC\xed\x01"), IMAGE_MOST_UNKNOWN);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("image");

	tcase_add_test(tests, ptx_is_its_variables);
	tcase_add_test(tests, a_cubin_is_its_sections);
	tcase_add_test(tests, a_fat_binary_is_its_largest_piece);
	tcase_add_test(tests, a_broken_fat_binary_is_not_followed);
	return suite_run("image", tests);
}

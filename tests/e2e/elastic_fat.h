/* SPDX-License-Identifier: MIT */
/*
 * The kernels of elastic.h as a fat binary: their text, for the software GPU, and a cubin without
 * code. Its sections .nv.info have the sizes of the parameters of mix and mix_table, as ptxas
 * writes them.
 */
#ifndef SPILLWAY_ELASTIC_FAT_H
#define SPILLWAY_ELASTIC_FAT_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct elastic_fat_entry {
	uint16_t kind, version;
	uint32_t header_size;
	uint64_t size;
	uint32_t packed_size, more[2], processor, rest[8];
};

struct elastic_fat_info {
	uint8_t format, what;
	uint16_t value;
	uint32_t index;
	uint16_t ordinal, offset;
	uint32_t bits;
};

enum { ELASTIC_FAT_PARAMETERS = 6 };

#define ELASTIC_FAT_NAMES "\0.shstrtab\0.nv.info.mix\0.nv.info.mix_table"

static struct elastic_fat {
	struct {
		uint32_t magic;
		uint16_t version, header_size;
		uint64_t size;
	} header;
	struct elastic_fat_entry text;
	_Alignas(8) char ptx[sizeof(elastic_kernels)];
	_Alignas(8) struct elastic_fat_entry code;
	struct elastic_fat_cubin {
		Elf64_Ehdr header;
		Elf64_Shdr section[4];
		struct elastic_fat_info mix[ELASTIC_FAT_PARAMETERS],
		    mix_table[ELASTIC_FAT_PARAMETERS];
		char names[sizeof(ELASTIC_FAT_NAMES)];
	} cubin;
} elastic_fat;

static inline Elf64_Shdr elastic_fat_section(uint32_t name, size_t offset, size_t size)
{
	return (Elf64_Shdr){
	    .sh_name = name, .sh_type = 0x70000000, .sh_offset = offset, .sh_size = size};
}

/* Parameters of these sizes, in bytes. */
static inline void elastic_fat_tell(struct elastic_fat_info *info, const uint32_t *sizes)
{
	for (unsigned int i = 0; i < ELASTIC_FAT_PARAMETERS; i++)
		info[i] = (struct elastic_fat_info){.format = 4,
		                                    .what = 0x17,
		                                    .value = 12,
		                                    .ordinal = (uint16_t)i,
		                                    .bits = sizes[i] << 18};
}

static inline const void *elastic_fat_image(void)
{
	static const uint32_t mix[] = {8, 8, 4, 4, 4, 4}, mix_table[] = {8, 4, 4, 4, 4, 4};
	struct elastic_fat *f = &elastic_fat;
	struct elastic_fat_cubin *c = &f->cubin;
	const struct elastic_fat_entry entry = {
	    .version = 1, .header_size = sizeof(entry), .processor = 50};

	f->header.magic = 0xba55ed50U;
	f->header.version = 1;
	f->header.header_size = sizeof(f->header);
	f->header.size = sizeof(*f) - sizeof(f->header);
	f->text = f->code = entry;
	f->text.kind = 1;
	f->text.size = offsetof(struct elastic_fat, code) - offsetof(struct elastic_fat, ptx);
	memcpy(f->ptx, elastic_kernels, sizeof(f->ptx));
	f->code.kind = 2;
	f->code.size = sizeof(*f) - offsetof(struct elastic_fat, cubin);
	memcpy(c->header.e_ident, ELFMAG, SELFMAG);
	c->header.e_ident[EI_CLASS] = ELFCLASS64;
	c->header.e_shoff = offsetof(struct elastic_fat_cubin, section);
	c->header.e_shentsize = sizeof(Elf64_Shdr);
	c->header.e_shnum = 4;
	c->header.e_shstrndx = 1;
	c->section[1] =
	    elastic_fat_section(1, offsetof(struct elastic_fat_cubin, names), sizeof(c->names));
	c->section[2] =
	    elastic_fat_section(11, offsetof(struct elastic_fat_cubin, mix), sizeof(c->mix));
	c->section[3] = elastic_fat_section(24, offsetof(struct elastic_fat_cubin, mix_table),
	                                    sizeof(c->mix_table));
	elastic_fat_tell(c->mix, mix);
	elastic_fat_tell(c->mix_table, mix_table);
	memcpy(c->names, ELASTIC_FAT_NAMES, sizeof(c->names));
	return f;
}

#endif

/* SPDX-License-Identifier: MIT */
#include "tools/wheels/library_write.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/view/tool.h"

#ifndef PT_GNU_PROPERTY
#define PT_GNU_PROPERTY 0x6474e553
#endif
#ifndef NT_GNU_PROPERTY_TYPE_0
#define NT_GNU_PROPERTY_TYPE_0 5
#endif

/*
 * The file, in this order. The first line is mapped readable and executable, and the second
 * writable, PAGE bytes further on in memory than in the file. The loader does not read the third.
 *
 *	headers | note | symbols, their versions, hash table, texts, relocation | code
 *	dynamic section, address of the common function, a record for each function
 *	sections, for nm, debuggers and library_read.c
 */
enum {
	CODE = 16,
	PAGE = 65536,
	PHDRS = 6,
	SECTIONS = 5,
	VERSIONS = 64,
	FIRST = 2 /* function's symbol */
};

struct image {
	unsigned char *bytes;
	size_t used, room;
	const char *versions[VERSIONS];
	size_t version_count;
};

/* Appends zeroed bytes at a multiple of ALIGN. Returns their offset. */
static size_t image_add(struct image *image, size_t size, size_t align)
{
	size_t at = (image->used + align - 1) / align * align;

	if (at + size > image->room) {
		size_t room = 2 * (at + size);
		unsigned char *bytes = allocate(room);

		if (image->used)
			memcpy(bytes, image->bytes, image->used);
		free(image->bytes);
		image->bytes = bytes;
		image->room = room;
	}
	image->used = at + size;
	return at;
}

static size_t image_add_text(struct image *image, const char *text)
{
	size_t at = image_add(image, strlen(text) + 1, 1);

	strcpy((char *)image->bytes + at, text);
	return at;
}

static void *image_at(struct image *image, size_t offset)
{
	return image->bytes + offset;
}

/* The hash function of System V's ABI, of symbols and of versions. */
static uint32_t image_hash(const char *name)
{
	uint32_t hash = 0;

	for (; *name; name++) {
		uint32_t high;

		hash = (hash << 4) + (unsigned char)*name;
		high = hash & 0xf0000000;
		hash = (hash ^ high >> 24) & ~high;
	}
	return hash;
}

/* Returns the number of a version: 1 for none, and 2 for the first. */
static uint16_t image_version(struct image *image, const char *version)
{
	size_t i = 0;

	if (!*version)
		return VER_NDX_GLOBAL;
	while (i < image->version_count && strcmp(image->versions[i], version) != 0)
		i++;
	if (i == VERSIONS)
		return VER_NDX_GLOBAL;
	if (i == image->version_count)
		image->versions[image->version_count++] = version;
	return (uint16_t)(i + VER_NDX_GLOBAL + 1);
}

/* Writes the definition of version number INDEX, the library's own name for 1. */
static void image_define(struct image *image, size_t at, uint16_t index, const char *name,
                         size_t text, bool is_last)
{
	Elf64_Verdef *verdef = image_at(image, at);
	Elf64_Verdaux *aux = (void *)(verdef + 1);

	*verdef = (Elf64_Verdef){
	    .vd_version = VER_DEF_CURRENT,
	    .vd_flags = index == VER_NDX_GLOBAL ? VER_FLG_BASE : 0,
	    .vd_ndx = index,
	    .vd_cnt = 1,
	    .vd_hash = image_hash(name),
	    .vd_aux = sizeof *verdef,
	    .vd_next = is_last ? 0 : sizeof *verdef + sizeof *aux,
	};
	*aux = (Elf64_Verdaux){.vda_name = (Elf64_Word)text};
}

/*
 * Code that loads a record's address and goes on at COMMON; and COMMON, which goes on at the
 * address that GOT holds. All are addresses. The record is the first argument, or it is in r11 or
 * x17 where the arguments are the caller's.
 */
#if defined(__x86_64__)
#define MACHINE  EM_X86_64
#define GLOB_DAT R_X86_64_GLOB_DAT
#define FEATURES 0xc0000002, 4, 3 /* GNU_PROPERTY_X86_FEATURE_1_AND: IBT, SHSTK */

static void code_relative(unsigned char *code, size_t end, size_t target)
{
	int32_t distance = (int32_t)(target - end);

	memcpy(code, &distance, sizeof distance);
}

static void code_function(unsigned char *code, size_t at, size_t record, size_t common,
                          bool keeps_arguments)
{
	static const unsigned char bytes[CODE] = {
	    0xf3, 0x0f, 0x1e, 0xfa,          /* endbr64 */
	    0x48, 0x8d, 0x3d, 0,    0, 0, 0, /* lea record(%rip), %rdi */
	    0xe9, 0,    0,    0,    0,       /* jmp common */
	};

	memcpy(code, bytes, CODE);
	if (keeps_arguments) {
		code[4] = 0x4c; /* lea record(%rip), %r11 */
		code[6] = 0x1d;
	}
	code_relative(code + 7, at + 11, record);
	code_relative(code + 12, at + 16, common);
}

static void code_common(unsigned char *code, size_t at, size_t got)
{
	static const unsigned char bytes[CODE] = {0xff, 0x25}; /* jmp *got(%rip) */

	memcpy(code, bytes, CODE);
	code_relative(code + 2, at + 6, got);
}
#else
#define MACHINE  EM_AARCH64
#define GLOB_DAT R_AARCH64_GLOB_DAT
#define FEATURES 0xc0000000, 4, 1 /* GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI */

static uint32_t code_adrp(uint32_t to, size_t at, size_t target)
{
	uint32_t pages = (uint32_t)((target >> 12) - (at >> 12));

	return 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7ffff) << 5 | to;
}

static void code_function(unsigned char *code, size_t at, size_t record, size_t common,
                          bool keeps_arguments)
{
	const uint32_t to = keeps_arguments ? 17 : 0;
	uint32_t words[] = {
	    0xd503245f, /* bti c */
	    code_adrp(to, at + 4, record),
	    0x91000000 | (uint32_t)(record & 0xfff) << 10 | to << 5 | to, /* add to, to, record */
	    0x14000000 | ((uint32_t)((common - (at + 12)) >> 2) & 0x3ffffff), /* b common */
	};

	memcpy(code, words, sizeof words);
}

static void code_common(unsigned char *code, size_t at, size_t got)
{
	uint32_t words[] = {
	    code_adrp(16, at, got),
	    0xf9400210 | (uint32_t)((got & 0xfff) >> 3) << 10, /* ldr x16, [x16, got] */
	    0xd61f0200,                                        /* br x16 */
	    0xd503201f,                                        /* nop */
	};

	memcpy(code, words, sizeof words);
}
#endif

static void image_hash_table(struct image *image, size_t at, size_t buckets, size_t symbols,
                             const struct library_function *functions)
{
	uint32_t *table = image_at(image, at);
	uint32_t *bucket = table + 2, *chain = bucket + buckets;

	table[0] = (uint32_t)buckets;
	table[1] = (uint32_t)symbols;
	for (size_t i = FIRST; i < symbols; i++) {
		uint32_t *first = &bucket[image_hash(functions[i - FIRST].name) % buckets];

		chain[i] = *first;
		*first = (uint32_t)i;
	}
}

/* A part of the file, by its bounds. */
struct span {
	size_t start, end;
};

/* Appends the sections. */
static void image_add_sections(struct image *image, struct span code, struct span symbols,
                               struct span texts)
{
	static const char names[] = "\0.text\0.dynsym\0.dynstr\0.shstrtab";
	const Elf64_Shdr sections[SECTIONS] = {
	    [1] = {.sh_name = 1,
	           .sh_type = SHT_PROGBITS,
	           .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
	           .sh_addr = code.start,
	           .sh_offset = code.start,
	           .sh_size = code.end - code.start,
	           .sh_addralign = CODE},
	    [2] = {.sh_name = 7,
	           .sh_type = SHT_DYNSYM,
	           .sh_flags = SHF_ALLOC,
	           .sh_addr = symbols.start,
	           .sh_offset = symbols.start,
	           .sh_size = symbols.end - symbols.start,
	           .sh_link = 3,
	           .sh_info = 1,
	           .sh_addralign = 8,
	           .sh_entsize = sizeof(Elf64_Sym)},
	    [3] = {.sh_name = 15,
	           .sh_type = SHT_STRTAB,
	           .sh_flags = SHF_ALLOC,
	           .sh_addr = texts.start,
	           .sh_offset = texts.start,
	           .sh_size = texts.end - texts.start,
	           .sh_addralign = 1},
	    [4] = {.sh_name = 23,
	           .sh_type = SHT_STRTAB,
	           .sh_offset = image_add(image, sizeof names, 1),
	           .sh_size = sizeof names,
	           .sh_addralign = 1},
	};
	size_t at = image_add(image, sizeof sections, 8);
	Elf64_Ehdr *header = image_at(image, 0);

	memcpy(image_at(image, sections[4].sh_offset), names, sizeof names);
	memcpy(image_at(image, at), sections, sizeof sections);
	header->e_shoff = at;
	header->e_shentsize = sizeof *sections;
	header->e_shnum = SECTIONS;
	header->e_shstrndx = SECTIONS - 1;
}

static void image_make(struct image *image, const struct library_form *form,
                       const struct library_function *functions, size_t count)
{
	const size_t symbols = FIRST + count, buckets = count / 2 + 1;
	size_t header, note, symtab, versym, verdef, verdefs, hash, texts, texts_end, soname_text;
	size_t common_text, needed_text, rela, code, common, data, dynamic, got, records, next;
	const size_t definition = sizeof(Elf64_Verdef) + sizeof(Elf64_Verdaux);

	/* Every address that is jumped to is a landing pad, so no process loses that protection. */
	static const uint32_t property[] = {4, 16, NT_GNU_PROPERTY_TYPE_0, 0x00554e47, FEATURES, 0};

	header = image_add(image, sizeof(Elf64_Ehdr) + PHDRS * sizeof(Elf64_Phdr), 1);
	note = image_add(image, sizeof property, 8);
	memcpy(image_at(image, note), property, sizeof property);
	symtab = image_add(image, symbols * sizeof(Elf64_Sym), 8);
	versym = image_add(image, symbols * sizeof(Elf64_Half), 8);
	for (size_t i = 0; i < count; i++) {
		uint16_t index = image_version(image, functions[i].version);

		((Elf64_Half *)image_at(image, versym))[FIRST + i] = index;
	}
	((Elf64_Half *)image_at(image, versym))[1] = VER_NDX_GLOBAL;
	verdefs = image->version_count ? image->version_count + 1 : 0;
	verdef = image_add(image, verdefs * definition, 8);
	hash = image_add(image, (2 + buckets + symbols) * sizeof(uint32_t), 8);
	image_hash_table(image, hash, buckets, symbols, functions);

	texts = image_add(image, 1, 1);
	soname_text = image_add_text(image, form->soname) - texts;
	needed_text = image_add_text(image, form->needed) - texts;
	common_text = image_add_text(image, form->common) - texts;
	for (size_t i = 0; i < verdefs; i++) {
		const char *name = i ? image->versions[i - 1] : form->soname;
		size_t text = i ? image_add_text(image, name) - texts : soname_text;

		image_define(image, verdef + i * definition, (uint16_t)(i + VER_NDX_GLOBAL), name,
		             text, i + 1 == verdefs);
	}
	for (size_t i = 0; i < count; i++) {
		size_t text = image_add_text(image, functions[i].name) - texts;
		Elf64_Sym *symbol = (Elf64_Sym *)image_at(image, symtab) + FIRST + i;

		symbol->st_name = (Elf64_Word)text;
	}
	texts_end = image->used;
	((Elf64_Sym *)image_at(image, symtab))[1] = (Elf64_Sym){
	    .st_name = (Elf64_Word)common_text,
	    .st_info = ELF64_ST_INFO(form->keeps_arguments ? STB_WEAK : STB_GLOBAL, STT_FUNC)};
	rela = image_add(image, sizeof(Elf64_Rela), 8);
	common = image_add(image, CODE, CODE);
	code = image_add(image, count * CODE, CODE);

	/* Writable addresses are PAGE more than offsets. */
	data = image_add(image, 0, 16);
	const Elf64_Dyn entries[] = {
	    {DT_NEEDED, {needed_text}},
	    {DT_SONAME, {soname_text}},
	    {DT_HASH, {hash}},
	    {DT_SYMTAB, {symtab}},
	    {DT_SYMENT, {sizeof(Elf64_Sym)}},
	    {DT_STRTAB, {texts}},
	    {DT_STRSZ, {texts_end - texts}},
	    {DT_RELA, {rela}},
	    {DT_RELASZ, {sizeof(Elf64_Rela)}},
	    {DT_RELAENT, {sizeof(Elf64_Rela)}},
	    {verdefs ? DT_VERSYM : DT_NULL, {versym}},
	    {DT_VERDEF, {verdef}},
	    {DT_VERDEFNUM, {verdefs}},
	    {DT_NULL, {0}},
	};
	dynamic = image_add(image, sizeof entries, 16);
	memcpy(image_at(image, dynamic), entries, sizeof entries);
	got = image_add(image, sizeof(uint64_t), 8);
	records = image_add(image, count * sizeof(struct stand_in), 16);
	*(Elf64_Rela *)image_at(image, rela) =
	    (Elf64_Rela){.r_offset = got + PAGE, .r_info = ELF64_R_INFO(1, GLOB_DAT)};
	code_common(image_at(image, common), common, got + PAGE);
	for (size_t i = 0; i < count; i++) {
		Elf64_Sym *symbol = (Elf64_Sym *)image_at(image, symtab) + FIRST + i;
		struct stand_in *record = (struct stand_in *)image_at(image, records) + i;
		size_t address = records + i * sizeof *record + PAGE;

		next = code + i * CODE;
		code_function(image_at(image, next), next, address, common, form->keeps_arguments);
		symbol->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
		symbol->st_shndx = 1; /* .text */
		symbol->st_value = next;
		symbol->st_size = CODE;
		*record = (struct stand_in){.name = (int32_t)(texts + symbol->st_name - address),
		                            .kind = functions[i].kind,
		                            .status = form->status};
	}

	*(Elf64_Ehdr *)image_at(image, header) = (Elf64_Ehdr){
	    .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	    .e_type = ET_DYN,
	    .e_machine = MACHINE,
	    .e_version = EV_CURRENT,
	    .e_phoff = sizeof(Elf64_Ehdr),
	    .e_ehsize = sizeof(Elf64_Ehdr),
	    .e_phentsize = sizeof(Elf64_Phdr),
	    .e_phnum = PHDRS,
	};
	Elf64_Phdr segments[PHDRS] = {
	    {.p_type = PT_LOAD,
	     .p_flags = PF_R | PF_X,
	     .p_filesz = data,
	     .p_memsz = data,
	     .p_align = PAGE},
	    {.p_type = PT_LOAD,
	     .p_flags = PF_R | PF_W,
	     .p_offset = data,
	     .p_vaddr = data + PAGE,
	     .p_paddr = data + PAGE,
	     .p_filesz = image->used - data,
	     .p_memsz = image->used - data,
	     .p_align = PAGE},
	    {.p_type = PT_DYNAMIC,
	     .p_flags = PF_R | PF_W,
	     .p_offset = dynamic,
	     .p_vaddr = dynamic + PAGE,
	     .p_paddr = dynamic + PAGE,
	     .p_filesz = sizeof entries,
	     .p_memsz = sizeof entries,
	     .p_align = 8},
	    {.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16},
	    {.p_type = PT_NOTE,
	     .p_flags = PF_R,
	     .p_offset = note,
	     .p_vaddr = note,
	     .p_paddr = note,
	     .p_filesz = sizeof property,
	     .p_memsz = sizeof property,
	     .p_align = 8},
	};
	segments[PHDRS - 1] = segments[PHDRS - 2];
	segments[PHDRS - 1].p_type = PT_GNU_PROPERTY;
	memcpy(image_at(image, header + sizeof(Elf64_Ehdr)), segments, sizeof segments);
	image_add_sections(image, (struct span){common, code + count * CODE},
	                   (struct span){symtab, versym}, (struct span){texts, texts_end});
}

/* Writes all of it. */
static bool image_write(const struct image *image, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	size_t done = 0;
	ssize_t taken = 1;

	if (fd < 0)
		return false;
	for (; done < image->used && taken > 0; done += (size_t)(taken > 0 ? taken : 0))
		taken = write(fd, image->bytes + done, image->used - done);
	return close(fd) == 0 && done == image->used;
}

bool library_write(const char *path, const struct library_form *form,
                   const struct library_function *functions, size_t count)
{
	struct image image = {0};
	bool is_written;

	image_make(&image, form, functions, count);
	is_written = image_write(&image, path);
	free(image.bytes);
	return is_written;
}

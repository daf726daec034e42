/* SPDX-License-Identifier: MIT */
#include "tools/wheels/library_read.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/file_status.h"

/* A section: its bytes, and the section that it refers to. */
struct part {
	const unsigned char *bytes;
	size_t size, link;
};

bool library_map(struct library *library, const char *path)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *bytes = MAP_FAILED;
	int reason;

	if (fd < 0)
		return false;
	if (file_status_of(fd, &status) == 0 && status.st_size > 0)
		bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	reason = errno;
	close(fd);
	errno = reason;
	if (bytes == MAP_FAILED)
		return false;
	*library = (struct library){.bytes = bytes, .size = (size_t)status.st_size};
	return true;
}

void library_unmap(struct library *library)
{
	munmap((void *)(uintptr_t)library->bytes, library->size);
}

/* Returns the file's header, or NULL where it is none of a 64-bit library with sections. */
static const Elf64_Ehdr *library_header(const struct library *library)
{
	const Elf64_Ehdr *header = (const void *)library->bytes;

	if (library->size < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
	    header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_DYN ||
	    header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shoff > library->size ||
	    header->e_shoff % _Alignof(Elf64_Shdr) != 0 ||
	    header->e_shnum > (library->size - header->e_shoff) / sizeof(Elf64_Shdr))
		return NULL;
	return header;
}

/* Returns the section of that number; one without bytes in the file is empty. */
static struct part library_part(const struct library *library, size_t number)
{
	const Elf64_Ehdr *header = library_header(library);
	const Elf64_Shdr *section;

	if (!header || number >= header->e_shnum)
		return (struct part){0};
	section = (const Elf64_Shdr *)(const void *)(library->bytes + header->e_shoff) + number;
	if (section->sh_type == SHT_NOBITS || section->sh_offset > library->size ||
	    section->sh_size > library->size - section->sh_offset)
		return (struct part){0};
	return (struct part){.bytes = library->bytes + section->sh_offset,
	                     .size = section->sh_size,
	                     .link = section->sh_link};
}

/* Returns the first section of that type, or an empty one; also for one at an odd place. */
static struct part library_part_of(const struct library *library, uint32_t type)
{
	const size_t align = type == SHT_GNU_versym ? 2 : type == SHT_GNU_verneed ? 4 : 8;
	const Elf64_Ehdr *header = library_header(library);
	const Elf64_Shdr *sections;

	if (!header)
		return (struct part){0};
	sections = (const void *)(library->bytes + header->e_shoff);
	for (size_t i = 0; i < header->e_shnum; i++)
		if (sections[i].sh_type == type && sections[i].sh_offset % align == 0)
			return library_part(library, i);
	return (struct part){0};
}

/* Returns the text at an offset of a section, or "" where none ends within it. */
static const char *part_text(const struct part *part, size_t offset)
{
	if (offset >= part->size || !memchr(part->bytes + offset, '\0', part->size - offset))
		return "";
	return (const char *)part->bytes + offset;
}

void library_needed(const struct library *library, void (*take)(void *cookie, const char *soname),
                    void *cookie)
{
	struct part dynamic = library_part_of(library, SHT_DYNAMIC);
	struct part texts = library_part(library, dynamic.link);
	const Elf64_Dyn *entries = (const void *)dynamic.bytes;

	for (size_t i = 0; i < dynamic.size / sizeof *entries; i++)
		if (entries[i].d_tag == DT_NEEDED)
			take(cookie, part_text(&texts, entries[i].d_un.d_val));
}

/* Returns the name of the version that the library needs by that number, or "". */
static const char *library_version(const struct library *library, unsigned int number)
{
	struct part needs = library_part_of(library, SHT_GNU_verneed);
	struct part texts = library_part(library, needs.link);
	size_t at = 0;

	while (needs.size >= sizeof(Elf64_Verneed) && at <= needs.size - sizeof(Elf64_Verneed)) {
		const Elf64_Verneed *need = (const void *)(needs.bytes + at);
		size_t next = at + need->vn_aux;

		for (int i = 0; i < need->vn_cnt && next % 4 == 0 &&
		                next <= needs.size - sizeof(Elf64_Vernaux);
		     i++) {
			const Elf64_Vernaux *version = (const void *)(needs.bytes + next);

			if (version->vna_other == number)
				return part_text(&texts, version->vna_name);
			next += version->vna_next;
		}
		if (need->vn_next == 0 || need->vn_next % 4 != 0)
			break;
		at += need->vn_next;
	}
	return "";
}

void library_undefined(const struct library *library,
                       void (*take)(void *cookie, const char *name, const char *version),
                       void *cookie)
{
	struct part symbols = library_part_of(library, SHT_DYNSYM);
	struct part texts = library_part(library, symbols.link);
	struct part versions = library_part_of(library, SHT_GNU_versym);
	const Elf64_Sym *all = (const void *)symbols.bytes;
	const Elf64_Half *numbers = (const void *)versions.bytes;

	for (size_t i = 1; i < symbols.size / sizeof *all; i++) {
		unsigned int number = i < versions.size / sizeof *numbers ? numbers[i] : 0;

		if (all[i].st_shndx == SHN_UNDEF)
			take(cookie, part_text(&texts, all[i].st_name),
			     number > 1 ? library_version(library, number & 0x7fff) : "");
	}
}

void library_exported(const struct library *library, void (*take)(void *cookie, const char *name),
                      void *cookie)
{
	struct part symbols = library_part_of(library, SHT_DYNSYM);
	struct part texts = library_part(library, symbols.link);
	const Elf64_Sym *all = (const void *)symbols.bytes;

	for (size_t i = 1; i < symbols.size / sizeof *all; i++) {
		unsigned char binding = ELF64_ST_BIND(all[i].st_info);
		unsigned char type = ELF64_ST_TYPE(all[i].st_info);
		unsigned char visibility = ELF64_ST_VISIBILITY(all[i].st_other);

		if (all[i].st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC) &&
		    (binding == STB_GLOBAL || binding == STB_WEAK) &&
		    (visibility == STV_DEFAULT || visibility == STV_PROTECTED))
			take(cookie, part_text(&texts, all[i].st_name));
	}
}

void library_texts(const struct library *library, void (*take)(void *cookie, const char *text),
                   void *cookie)
{
	const Elf64_Ehdr *header = library_header(library);
	struct part names = library_part(library, header ? header->e_shstrndx : 0);
	const Elf64_Shdr *sections = NULL;

	if (header)
		sections = (const void *)(library->bytes + header->e_shoff);
	for (size_t i = 0; header && i < header->e_shnum; i++) {
		struct part part = library_part(library, i);
		const char *next = (const char *)part.bytes, *end = next + part.size, *last;

		if (strncmp(part_text(&names, sections[i].sh_name), ".rodata", 7) != 0)
			continue;
		for (; next < end && (last = memchr(next, '\0', (size_t)(end - next)));
		     next = last + 1)
			if (next < last)
				take(cookie, next);
	}
}

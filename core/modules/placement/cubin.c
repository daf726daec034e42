/* SPDX-License-Identifier: MIT */
/*
 * Parameters in cubins. Rules: runs inside the user's process; the image is its data, and may be
 * wrong.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/uses/image.h"
#include "core/modules/placement/parameters.h"

struct search {
	image_kernel *found;
	void *cookie;
};

/* Parameters by index; those of less than a word are left out. False: no memory, or absurd. */
static bool image_do_add(struct parameters **list, uint64_t index, uint64_t bytes)
{
	struct parameters *p = *list;

	if (index > PARAMETERS_MAX || bytes > PARAMETERS_MAX * sizeof(uint64_t))
		return false;
	if (bytes < sizeof(uint64_t))
		return true;
	p = realloc(p, sizeof(*p) + (p->count + 1) * sizeof(p->parameter[0]));
	if (!p)
		return false;
	*list = p;
	p->parameter[p->count++] =
	    (struct parameter){(uint16_t)index, (uint16_t)(bytes / sizeof(uint64_t))};
	return true;
}

/*
 * A section .nv.info.KERNEL is a row of these, each followed by `value` bytes where its format says
 * so.
 */
struct attribute {
	uint8_t format, what;
	uint16_t value;
};

enum { HAS_BYTES = 4, KPARAM_INFO = 0x17, KPARAM_INFO_V2 = 0x45 };

/* A parameter; of the newer form the size has a field of its own. As ptxas 13.0 writes them. */
struct parameter_info {
	uint32_t index;
	uint16_t ordinal, offset;
	uint32_t bits;
};

static uint64_t image_size_of(const struct parameter_info *info, unsigned int what)
{
	return what == KPARAM_INFO ? info->bits >> 18 : info->bits & 0xffff;
}

static bool read_info(struct parameters **list, const unsigned char *at, uint64_t size)
{
	struct attribute attribute;

	for (; size >= sizeof(attribute); at += sizeof(attribute), size -= sizeof(attribute)) {
		struct parameter_info info;

		memcpy(&attribute, at, sizeof(attribute));
		if (attribute.format != HAS_BYTES)
			continue;
		if (attribute.value > size - sizeof(attribute))
			return false;
		if (attribute.what == KPARAM_INFO || attribute.what == KPARAM_INFO_V2) {
			if (attribute.value < sizeof(info))
				return false;
			memcpy(&info, at + sizeof(attribute), sizeof(info));
			if (!image_do_add(list, info.ordinal, image_size_of(&info, attribute.what)))
				return false;
		}
		at += attribute.value;
		size -= attribute.value;
	}
	return true;
}

/* Returns the section's name behind ".nv.info.", or NULL. */
static const char *kernel_of(const unsigned char *names, uint64_t size, uint64_t name)
{
	static const char prefix[] = ".nv.info.";
	const char *text = (const char *)names + name;

	if (name >= size || !memchr(text, '\0', size - name) ||
	    strncmp(text, prefix, sizeof(prefix) - 1) != 0)
		return NULL;
	return text + sizeof(prefix) - 1;
}

static bool is_inside(const Elf64_Shdr *section, uint64_t size)
{
	return section->sh_offset <= size && section->sh_size <= size - section->sh_offset;
}

static void read_cubin(const struct search *search, const unsigned char *image, uint64_t size)
{
	Elf64_Ehdr header;
	Elf64_Shdr names;

	if (size < sizeof(header))
		return;
	memcpy(&header, image, sizeof(header));
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr) ||
	    header.e_shstrndx >= header.e_shnum || header.e_shoff < sizeof(header) ||
	    header.e_shoff > size || header.e_shnum * sizeof(Elf64_Shdr) > size - header.e_shoff)
		return;
	memcpy(&names, image + header.e_shoff + header.e_shstrndx * sizeof(names), sizeof(names));
	if (!is_inside(&names, size))
		return;
	for (unsigned int i = 0; i < header.e_shnum; i++) {
		struct parameters *list;
		Elf64_Shdr section;
		const char *name;

		memcpy(&section, image + header.e_shoff + i * sizeof(section), sizeof(section));
		name = kernel_of(image + names.sh_offset, names.sh_size, section.sh_name);
		if (!name || !is_inside(&section, size))
			continue;
		list = calloc(1, sizeof(*list));
		if (list && read_info(&list, image + section.sh_offset, section.sh_size))
			search->found(search->cookie, name, strlen(name), list);
		else
			free(list);
	}
}

static void read_piece(void *cookie, enum image_kind kind, const void *piece, uint64_t size)
{
	if (kind == IMAGE_CUBIN)
		read_cubin(cookie, piece, size);
}

void image_each_kernel(const void *image, image_kernel *found, void *cookie)
{
	struct search search = {found, cookie};

	image_each(image, read_piece, &search);
}

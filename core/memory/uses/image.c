/* SPDX-License-Identifier: MIT */
/*
 * Bounds of images. Rules: runs inside the user's process; the image is its data, and may be wrong.
 */
#include "core/memory/uses/image.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Beside the variables: buffers of printf and of the heap, constant banks, and code, which is
 * compiled larger.
 */
#define BESIDE   ((uint64_t)64 << 20)
#define PER_BYTE 16 /* of code for one of PTX */

/* Layout as tests/softgpu/fatbin.c found it in nvcc's own output. */
#define WRAPPER_MAGIC 0x466243b1U
#define FATBIN_MAGIC  0xba55ed50U

struct wrapper {
	uint32_t magic, version;
	const void *fatbin;
};

struct fatbin {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; /* of the entries that follow */
};

struct entry {
	uint16_t kind, version;
	uint32_t header_size;
	uint64_t size;        /* of the part after the header, padded */
	uint32_t packed_size; /* 0: it is as it is */
};

static uint64_t image_sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t product(uint64_t a, uint64_t b)
{
	uint64_t result;

	return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

/* --- PTX --- */

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

static bool image_begins(const char *text, const char *end, const char *word)
{
	size_t length = strlen(word);

	return (size_t)(end - text) >= length && memcmp(text, word, length) == 0 &&
	       (text + length == end || !is_word(text[length]));
}

/* Returns the bytes of one element: .v4 .f32 are four times 32 bits. */
static uint64_t element_bytes(const char *text, const char *end)
{
	uint64_t bytes = 16, vector = 1;

	for (; text < end && *text != '[' && *text != '='; text++) {
		if (*text == '.' && end - text > 2 && text[1] == 'v' &&
		    isdigit((unsigned char)text[2]))
			vector = (uint64_t)(text[2] - '0');
		else if (*text == '.' && end - text > 2 && strchr("busf", text[1]) &&
		         isdigit((unsigned char)text[2]))
			bytes = image_sum(strtoull(text + 2, NULL, 10), 7) / 8;
	}
	return product(bytes, vector);
}

/* Returns the bytes of a declaration, up to its end; several dimensions are multiplied. */
static uint64_t declared_bytes(const char *text, const char *end)
{
	uint64_t bytes = element_bytes(text, end);

	for (; text < end && *text != '='; text++) {
		if (*text == '[')
			bytes = product(bytes, strtoull(text + 1, NULL, 0));
	}
	return bytes;
}

static bool is_text(char c)
{
	return isprint((unsigned char)c) || isspace((unsigned char)c);
}

/*
 * Returns the most bytes that the PTX text[size] can take: text after the size is not read, as far
 * as strtoull stops at the ';' of a declaration.
 */
static uint64_t ptx_most(const char *text, size_t size)
{
	const char *end = text + size;
	uint64_t bytes = image_sum(BESIDE, product(size, PER_BYTE));

	for (const char *at = text; at < end; at++) {
		const char *stop;

		if (*at != '.' || (at > text && is_word(at[-1])) ||
		    (!image_begins(at, end, ".global") && !image_begins(at, end, ".const")))
			continue;
		stop = memchr(at, ';', (size_t)(end - at));
		if (!stop)
			break;
		bytes = image_sum(bytes, declared_bytes(at, stop));
		at = stop;
	}
	return bytes;
}

/* --- cubins --- */

/*
 * Returns the most bytes that a cubin can take, or IMAGE_MOST_UNKNOWN. size: bytes of the image,
 * where they are known.
 */
static uint64_t elf_most(const unsigned char *image, uint64_t size)
{
	uint64_t bytes = BESIDE, table;
	Elf64_Ehdr header;

	if (size < sizeof(header))
		return IMAGE_MOST_UNKNOWN;
	memcpy(&header, image, sizeof(header));
	table = product(header.e_shnum, sizeof(Elf64_Shdr));
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || !header.e_shnum ||
	    header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff < sizeof(header) ||
	    header.e_shoff > size || table > size - header.e_shoff)
		return IMAGE_MOST_UNKNOWN;
	for (unsigned int i = 0; i < header.e_shnum; i++) {
		Elf64_Shdr section;

		memcpy(&section, image + header.e_shoff + i * sizeof(section), sizeof(section));
		bytes = image_sum(bytes, section.sh_size);
	}
	return bytes;
}

/* --- fat binaries --- */

/* Returns whether all of it could be followed. */
static bool each_of_fatbin(const unsigned char *image, image_piece *each, void *cookie)
{
	struct fatbin header;
	uint64_t offset, end;

	memcpy(&header, image, sizeof(header));
	if (header.magic != FATBIN_MAGIC || header.version != 1 ||
	    header.header_size < sizeof(header) || header.size > UINT32_MAX)
		return false;
	offset = header.header_size;
	end = offset + header.size;
	while (end - offset >= sizeof(struct entry)) {
		struct entry entry;
		const unsigned char *piece;

		memcpy(&entry, image + offset, sizeof(entry));
		if (entry.header_size < sizeof(entry) || entry.header_size > end - offset ||
		    entry.size > end - offset - entry.header_size)
			return false;
		piece = image + offset + entry.header_size;
		if (entry.packed_size)
			each(cookie, IMAGE_PACKED, piece, entry.size);
		else if (entry.size >= SELFMAG && memcmp(piece, ELFMAG, SELFMAG) == 0)
			each(cookie, IMAGE_CUBIN, piece, entry.size);
		else
			each(cookie, IMAGE_PTX, piece, strnlen((const char *)piece, entry.size));
		offset += entry.header_size + entry.size;
	}
	return true;
}

bool image_each(const void *image, image_piece *each, void *cookie)
{
	uint32_t magic;

	if (!image)
		return false;
	/* No image is shorter. */
	memcpy(&magic, image, sizeof(magic));
	if (magic == WRAPPER_MAGIC) {
		struct wrapper wrapper;

		memcpy(&wrapper, image, sizeof(wrapper));
		return wrapper.fatbin && each_of_fatbin(wrapper.fatbin, each, cookie);
	}
	if (magic == FATBIN_MAGIC)
		return each_of_fatbin(image, each, cookie);
	if (memcmp(&magic, ELFMAG, SELFMAG) == 0)
		each(cookie, IMAGE_CUBIN, image, UINT32_MAX);
	else if (is_text(*(const char *)image))
		each(cookie, IMAGE_PTX, image, strlen(image));
	else
		return false;
	return true;
}

/*
 * Takes the larger size of this piece and those before it, because the driver takes one of the
 * pieces.
 */
static void take_larger(void *cookie, enum image_kind kind, const void *piece, uint64_t size)
{
	uint64_t *largest = cookie, bytes = IMAGE_MOST_UNKNOWN;

	if (kind == IMAGE_CUBIN)
		bytes = elf_most(piece, size);
	else if (kind == IMAGE_PTX)
		bytes = ptx_most(piece, size);
	if (bytes > *largest)
		*largest = bytes;
}

uint64_t image_most(const void *image)
{
	int kept = errno; /* the program's; strtoull has one of its own */
	uint64_t largest = BESIDE;
	bool is_read = image_each(image, take_larger, &largest);

	errno = kept;
	return is_read ? largest : IMAGE_MOST_UNKNOWN;
}

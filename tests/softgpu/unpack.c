/* SPDX-License-Identifier: MIT */
/*
 * LZ4 blocks, by the format's description (lz4 doc/lz4_Block_format.md), and Zstandard by libzstd.
 */
#include "tests/softgpu/unpack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

struct input {
	const uint8_t *at, *end;
};

/* A length whose four bits in the token were all set goes on in bytes, until one is not 255. */
static bool read_length(struct input *in, size_t *length)
{
	if (*length != 15)
		return true;
	uint8_t byte;
	do {
		if (in->at == in->end)
			return false;
		byte = *in->at++;
		*length += byte;
	} while (byte == 255);
	return true;
}

bool unpack_lz4(const void *packed, size_t packed_size, void *out, size_t out_size)
{
	struct input in = {packed, (const uint8_t *)packed + packed_size};
	uint8_t *at = out, *end = at + out_size;

	while (in.at < in.end) {
		uint8_t token = *in.at++;
		size_t literals = token >> 4, match = token & 15;
		if (!read_length(&in, &literals) || literals > (size_t)(in.end - in.at) ||
		    literals > (size_t)(end - at))
			return false;
		memcpy(at, in.at, literals);
		at += literals;
		in.at += literals;
		if (in.at == in.end) /* the last sequence has literals alone */
			return at == end;
		if (in.end - in.at < 2)
			return false;
		size_t distance = in.at[0] | (size_t)in.at[1] << 8;
		in.at += 2;
		if (!read_length(&in, &match))
			return false;
		match += 4;
		if (distance == 0 || distance > (size_t)(at - (uint8_t *)out) ||
		    match > (size_t)(end - at))
			return false;
		/* Byte by byte: the source may overlap what is being written. */
		for (; match; match--, at++)
			*at = *(at - distance);
	}
	return false;
}

/* Nearly every machine has libzstd, few have its headers: it is opened when first needed. */
static struct {
	size_t (*decompress)(void *out, size_t out_size, const void *in, size_t in_size);
	unsigned int (*is_error)(size_t result);
} zstd;

static void find_zstd(void)
{
	void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	*(void **)&zstd.is_error = dlsym(library, "ZSTD_isError");
	if (zstd.is_error)
		*(void **)&zstd.decompress = dlsym(library, "ZSTD_decompress");
}

bool can_unpack_zstd(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_zstd);
	return zstd.decompress != NULL;
}

bool unpack_zstd(const void *in, size_t in_size, void *out, size_t out_size)
{
	if (!can_unpack_zstd())
		return false;
	size_t size = zstd.decompress(out, out_size, in, in_size);
	return !zstd.is_error(size) && size == out_size;
}

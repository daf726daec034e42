/* SPDX-License-Identifier: MIT */
/*
 * Fat binaries. nvcc puts the same code for several processors into one image; here the PTX that
 * fits counts, packed or not. Layout and flags as nvcc 13.0's own --compress-mode=
 * none|speed|balance|size files show them, byte by byte.
 */
#include "tests/softgpu/fatbin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/softgpu/unpack.h"

#define WRAPPER_MAGIC 0x466243b1U
#define FATBIN_MAGIC  0xba55ed50U

struct wrapper {
	uint32_t magic, version;
	const void *fatbin;
	const void *linked; /* version 2: what is to be linked with it; see nvcc -rdc */
};

struct header {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; /* of the entries that follow */
};

enum { KIND_PTX = 1 };
enum { FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000 };

struct entry {
	uint16_t kind, version;
	uint32_t header_size;
	uint64_t size; /* of what follows the header, padded */
	uint32_t packed_size, options;
	uint16_t minor, major;
	uint32_t processor; /* 75 for sm_75 */
	uint32_t name, name_size;
	uint64_t flags, unknown, unpacked_size;
};

/* PTX beyond this is no program's, but a broken image's. */
#define TEXT_MOST (256ULL << 20)

/*
 * Copies from the image, which the caller gave without a size: where the pages end before the
 * image does, the kernel says so instead of a signal. The raw call, for sanitizers check ranges.
 */
static bool read_image(const void *image, uint64_t offset, void *out, size_t size)
{
	int file = memfd_create("softgpu-image", MFD_CLOEXEC);
	if (file < 0)
		return false;
	bool complete = true;
	for (size_t done = 0; complete && done < size;) {
		long wrote =
		    syscall(SYS_write, file, (uintptr_t)image + offset + done, size - done);
		complete = wrote > 0;
		if (complete)
			done += (size_t)wrote;
	}
	for (size_t done = 0; complete && done < size;) {
		ssize_t got = pread(file, (char *)out + done, size - done, (off_t)done);
		complete = got > 0;
		if (complete)
			done += (size_t)got;
	}
	close(file);
	return complete;
}

static bool is_ptx(const char *text)
{
	return strstr(text, ".version") != NULL;
}

/* Fills text[size] from the payload of an entry. */
static CUresult unpack(const struct entry *entry, const void *payload, size_t payload_size,
                       char *text, size_t size)
{
	bool good;
	if (entry->flags & FLAG_LZ4) {
		good = unpack_lz4(payload, payload_size, text, size);
	} else if (entry->flags & FLAG_ZSTD) {
		if (!can_unpack_zstd()) {
			say("fat binary: its PTX is packed with Zstandard, and there is no "
			    "libzstd.so.1 to unpack it");
			return CUDA_ERROR_NOT_SUPPORTED;
		}
		good = unpack_zstd(payload, payload_size, text, size);
	} else {
		good = payload_size == size;
		if (good)
			memcpy(text, payload, size);
	}
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

static CUresult entry_text(const void *image, uint64_t offset, const struct entry *entry,
                           char **out)
{
	bool packed = entry->packed_size != 0;
	if (packed && !(entry->flags & (FLAG_LZ4 | FLAG_ZSTD))) {
		say("fat binary: its PTX is packed in an unknown way (flags %#llx)",
		    (unsigned long long)entry->flags);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	uint64_t payload_size = packed ? entry->packed_size : entry->size;
	uint64_t size = packed ? entry->unpacked_size : entry->size;
	if (payload_size > entry->size || payload_size > TEXT_MOST || size > TEXT_MOST)
		return CUDA_ERROR_INVALID_IMAGE;
	char *payload = malloc(payload_size + 1), *text = malloc(size + 1);
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	if (payload && text) {
		result = CUDA_ERROR_INVALID_IMAGE;
		if (read_image(image, offset + entry->header_size, payload, payload_size))
			result = unpack(entry, payload, payload_size, text, size);
	}
	free(payload);
	if (result != CUDA_SUCCESS) {
		free(text);
		return result;
	}
	text[size] = '\0';
	if (!is_ptx(text)) {
		free(text);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	*out = text;
	return CUDA_SUCCESS;
}

static uint32_t this_processor(void)
{
	return (uint32_t)(device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
	                  device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

/* The PTX for the newest processor that is not newer than this one. */
static CUresult fatbin_text(const void *image, char **text)
{
	struct header header;
	char last;
	if (!read_image(image, 0, &header, sizeof(header)) || header.magic != FATBIN_MAGIC ||
	    header.version != 1 || header.header_size < sizeof(header) || !header.size ||
	    !read_image(image, header.header_size + header.size - 1, &last, 1))
		return CUDA_ERROR_INVALID_IMAGE;

	struct entry best = {0};
	uint64_t best_offset = 0, left = header.size, offset = header.header_size;
	while (left) {
		struct entry entry;
		if (left < sizeof(entry) || !read_image(image, offset, &entry, sizeof(entry)) ||
		    entry.header_size < sizeof(entry) || entry.header_size > left ||
		    entry.size > left - entry.header_size)
			return CUDA_ERROR_INVALID_IMAGE;
		if (entry.kind == KIND_PTX && entry.processor <= this_processor() &&
		    entry.processor > best.processor) {
			best = entry;
			best_offset = offset;
		}
		offset += entry.header_size + entry.size;
		left -= entry.header_size + entry.size;
	}
	if (!best.processor) {
		say("fat binary: there is no PTX in it for sm_%u or older", this_processor());
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	return entry_text(image, best_offset, &best, text);
}

static CUresult wrapped_text(const void *image, char **text)
{
	struct wrapper wrapper;
	if (!read_image(image, 0, &wrapper, sizeof(wrapper)) || !wrapper.fatbin)
		return CUDA_ERROR_INVALID_IMAGE;
	if (wrapper.version == 2) {
		say("fat binary: code that is still to be linked (nvcc -rdc=true) is not "
		    "supported");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return wrapper.version == 1 ? fatbin_text(wrapper.fatbin, text) : CUDA_ERROR_INVALID_IMAGE;
}

CUresult image_text(const void *image, char **text)
{
	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	uint32_t magic; /* or a text, which no shorter one can be */
	if (!read_image(image, 0, &magic, sizeof(magic)))
		return CUDA_ERROR_INVALID_IMAGE;
	if (magic == FATBIN_MAGIC)
		return fatbin_text(image, text);
	if (magic == WRAPPER_MAGIC)
		return wrapped_text(image, text);
	/* Machine code of NVIDIA's processors has no meaning here. */
	if (memcmp(&magic, "\177ELF", sizeof(magic)) == 0)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	if (!is_ptx(image))
		return CUDA_ERROR_INVALID_IMAGE;
	*text = strdup(image);
	return *text ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* SPDX-License-Identifier: MIT */
/*
 * Questions on copies and fills of every kind and form over mixed ranges. The destination is a
 * range of chunks dhdh, the source hdhd; both are filled and read back chunk by chunk, which is not
 * in question. Where a driver cannot do a form, the wrapper must split it at chunk boundaries.
 */
#include "tests/gpu/probe.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	CHUNKS = 4,
	PITCH = 4096, /* of the rectangular forms, */
	WIDTH = 4000, /* which leave the rest of each row alone */
	VALUE = 0x5a, /* of the fills */
};

/* Starts and ends inside chunks, at different places in the two ranges. */
static const size_t to_offset = (1 << 20) + 4 * PITCH;
static const size_t from_offset = (1 << 19) + PITCH;
static const size_t copy_bytes = 5 << 20;

enum kind {
	WRITE, /* host -> destination range */
	READ,  /* source range -> host */
	MOVE,  /* source range -> destination range */
	FILL,  /* -> destination range */
};

struct copy {
	enum kind kind;
	CUdeviceptr to, from;
	uint8_t *host;
	size_t bytes;
};

static CUDA_MEMCPY2D rectangle(const struct copy *c)
{
	CUDA_MEMCPY2D r = {
	    .srcMemoryType = c->kind == WRITE ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
	    .srcHost = c->host,
	    .srcDevice = c->from,
	    .srcPitch = PITCH,
	    .dstMemoryType = c->kind == READ ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
	    .dstHost = c->host,
	    .dstDevice = c->to,
	    .dstPitch = PITCH,
	    .WidthInBytes = WIDTH,
	    .Height = c->bytes / PITCH,
	};
	return r;
}

/* The same rectangle as two layers. */
static CUDA_MEMCPY3D box(const struct copy *c)
{
	CUDA_MEMCPY2D r = rectangle(c);
	CUDA_MEMCPY3D b = {
	    .srcMemoryType = r.srcMemoryType,
	    .srcHost = r.srcHost,
	    .srcDevice = r.srcDevice,
	    .srcPitch = PITCH,
	    .srcHeight = r.Height / 2,
	    .dstMemoryType = r.dstMemoryType,
	    .dstHost = c->host,
	    .dstDevice = r.dstDevice,
	    .dstPitch = PITCH,
	    .dstHeight = r.Height / 2,
	    .WidthInBytes = WIDTH,
	    .Height = r.Height / 2,
	    .Depth = 2,
	};
	return b;
}

static CUdeviceptr unified_to(const struct copy *c)
{
	return c->kind == READ ? (CUdeviceptr)(uintptr_t)c->host : c->to;
}

static CUdeviceptr unified_from(const struct copy *c)
{
	return c->kind == WRITE ? (CUdeviceptr)(uintptr_t)c->host : c->from;
}

#define FORM(name, call)                           \
	static CUresult name(const struct copy *c) \
	{                                          \
		return gpu.call;                   \
	}
FORM(htod, cuMemcpyHtoD(c->to, c->host, c->bytes))
FORM(htod_async, cuMemcpyHtoDAsync(c->to, c->host, c->bytes, stream))
FORM(dtoh, cuMemcpyDtoH(c->host, c->from, c->bytes))
FORM(dtoh_async, cuMemcpyDtoHAsync(c->host, c->from, c->bytes, stream))
FORM(dtod, cuMemcpyDtoD(c->to, c->from, c->bytes))
FORM(dtod_async, cuMemcpyDtoDAsync(c->to, c->from, c->bytes, stream))
FORM(unified, cuMemcpy(unified_to(c), unified_from(c), c->bytes))
FORM(unified_async, cuMemcpyAsync(unified_to(c), unified_from(c), c->bytes, stream))
FORM(peer, cuMemcpyPeer(c->to, context, c->from, context, c->bytes))
FORM(peer_async, cuMemcpyPeerAsync(c->to, context, c->from, context, c->bytes, stream))
FORM(fill_8, cuMemsetD8(c->to, VALUE, c->bytes))
FORM(fill_8_async, cuMemsetD8Async(c->to, VALUE, c->bytes, stream))
FORM(fill_16, cuMemsetD16(c->to, VALUE * 0x101, c->bytes / 2))
FORM(fill_16_async, cuMemsetD16Async(c->to, VALUE * 0x101, c->bytes / 2, stream))
FORM(fill_32, cuMemsetD32(c->to, VALUE * 0x1010101, c->bytes / 4))
FORM(fill_32_async, cuMemsetD32Async(c->to, VALUE * 0x1010101, c->bytes / 4, stream))
FORM(fill_2d_8, cuMemsetD2D8(c->to, PITCH, VALUE, WIDTH, c->bytes / PITCH))
FORM(fill_2d_8_async, cuMemsetD2D8Async(c->to, PITCH, VALUE, WIDTH, c->bytes / PITCH, stream))
FORM(fill_2d_16, cuMemsetD2D16(c->to, PITCH, VALUE * 0x101, WIDTH / 2, c->bytes / PITCH))
FORM(fill_2d_32, cuMemsetD2D32(c->to, PITCH, VALUE * 0x1010101, WIDTH / 4, c->bytes / PITCH))

#define SHAPED_FORM(name, type, shape, call)       \
	static CUresult name(const struct copy *c) \
	{                                          \
		type shaped = shape(c);            \
		return gpu.call;                   \
	}
SHAPED_FORM(rect, CUDA_MEMCPY2D, rectangle, cuMemcpy2D(&shaped))
SHAPED_FORM(rect_unaligned, CUDA_MEMCPY2D, rectangle, cuMemcpy2DUnaligned(&shaped))
SHAPED_FORM(rect_async, CUDA_MEMCPY2D, rectangle, cuMemcpy2DAsync(&shaped, stream))
SHAPED_FORM(layers, CUDA_MEMCPY3D, box, cuMemcpy3D(&shaped))
SHAPED_FORM(layers_async, CUDA_MEMCPY3D, box, cuMemcpy3DAsync(&shaped, stream))

struct form {
	const char *question;
	CUresult (*run)(const struct copy *c);
	enum kind kind;
	bool rectangular;
};

static const struct form copies[] = {
    {"copy_htod", htod, WRITE, false},
    {"copy_htod_async", htod_async, WRITE, false},
    {"copy_dtoh", dtoh, READ, false},
    {"copy_dtoh_async", dtoh_async, READ, false},
    {"copy_unified_htod", unified, WRITE, false},
    {"copy_unified_dtoh", unified, READ, false},
    {"copy_unified_htod_async", unified_async, WRITE, false},
    {"copy_unified_dtoh_async", unified_async, READ, false},
    {"copy_2d_htod", rect, WRITE, true},
    {"copy_2d_dtoh", rect, READ, true},
    {"copy_2d_htod_async", rect_async, WRITE, true},
    {"copy_2d_dtoh_async", rect_async, READ, true},
    {"copy_3d_htod", layers, WRITE, true},
    {"copy_3d_dtoh", layers, READ, true},
};

static const struct form moves[] = {
    {"copy_dtod", dtod, MOVE, false},
    {"copy_dtod_async", dtod_async, MOVE, false},
    {"copy_unified_dtod", unified, MOVE, false},
    {"copy_unified_dtod_async", unified_async, MOVE, false},
    {"copy_peer", peer, MOVE, false},
    {"copy_peer_async", peer_async, MOVE, false},
    {"copy_2d_dtod", rect, MOVE, true},
    {"copy_2d_unaligned_dtod", rect_unaligned, MOVE, true},
    {"copy_2d_dtod_async", rect_async, MOVE, true},
    {"copy_3d_dtod", layers, MOVE, true},
    {"copy_3d_dtod_async", layers_async, MOVE, true},
};

static const struct form fills[] = {
    {"fill_8", fill_8, FILL, false},        {"fill_8_async", fill_8_async, FILL, false},
    {"fill_16", fill_16, FILL, false},      {"fill_16_async", fill_16_async, FILL, false},
    {"fill_32", fill_32, FILL, false},      {"fill_32_async", fill_32_async, FILL, false},
    {"fill_2d_8", fill_2d_8, FILL, true},   {"fill_2d_8_async", fill_2d_8_async, FILL, true},
    {"fill_2d_16", fill_2d_16, FILL, true}, {"fill_2d_32", fill_2d_32, FILL, true},
};

/*
 * The bytes that everything is filled with before a form runs, and what it should look like after.
 */
struct scene {
	struct range to, from;
	uint8_t *host;     /* copy_bytes, pageable or pinned */
	uint8_t *source;   /* a whole range: what the form copies from, at from_offset */
	uint8_t *expected; /* a whole range: what the form copies to, at to_offset */
	uint8_t *seen;     /* a whole range */
};

static void fill_with_noise(uint8_t *bytes, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i++) {
		seed = seed * 1664525 + 1013904223;
		bytes[i] = seed >> 24;
	}
}

static void expect(struct scene *scene, const struct form *form)
{
	for (size_t i = 0; i < copy_bytes; i++)
		if (!form->rectangular || i % PITCH < WIDTH)
			scene->expected[to_offset + i] =
			    form->kind == FILL ? VALUE : scene->source[from_offset + i];
}

static void ask_form(struct scene *scene, const struct form *form, const char *question)
{
	size_t size = CHUNKS * small_chunk;
	struct copy copy = {form->kind, scene->to.base + to_offset, scene->from.base + from_offset,
	                    scene->host, copy_bytes};

	fill_with_noise(scene->source, size, 1);
	fill_with_noise(scene->expected, size, 2);
	memcpy(scene->host,
	       form->kind == READ ? scene->expected + to_offset : scene->source + from_offset,
	       copy_bytes);
	range_write(&scene->from, scene->source);
	range_write(&scene->to, scene->expected);
	ATTEMPT(cuCtxSynchronize());
	if (attempt.result == CUDA_SUCCESS)
		attempt = (struct attempt){form->run(&copy), form->question};
	ATTEMPT(cuCtxSynchronize());
	if (form->kind == READ)
		memcpy(scene->seen + to_offset, scene->host, copy_bytes);
	else
		range_read(&scene->to, scene->seen);
	if (attempt_failed(question))
		return;

	expect(scene, form);
	/* A form that reads leaves only its part in host memory. */
	size_t first = form->kind == READ ? to_offset : 0;
	size_t end = form->kind == READ ? to_offset + copy_bytes : size;
	for (size_t i = first; i < end; i++) {
		if (scene->seen[i] != scene->expected[i]) {
			answer(question, "wrong bytes", "first at byte %zd of %zu",
			       (ptrdiff_t)(i - to_offset), copy_bytes);
			return;
		}
	}
	answer(question, "yes", "%zu bytes", copy_bytes);
}

enum host { PAGEABLE, PINNED };

static void ask_with_host(const struct form *form, const char *question, enum host host)
{
	size_t size = CHUNKS * small_chunk;
	struct scene scene = {
	    .source = malloc(size), .expected = malloc(size), .seen = malloc(size)};

	attempt_begin();
	if (host == PAGEABLE)
		scene.host = malloc(copy_bytes);
	else
		ATTEMPT(cuMemHostAlloc((void **)&scene.host, copy_bytes, 0));
	if (attempt_failed(question)) /* the process ends with its memory */
		_exit(0);
	if (!scene.host || !scene.source || !scene.expected || !scene.seen)
		abort(); /* it is said that the process died */
	range_make(&scene.to, "dhdh", small_chunk);
	range_make(&scene.from, "hdhd", small_chunk);
	ask_form(&scene, form, question);
	range_free(&scene.to);
	range_free(&scene.from);
	if (host == PAGEABLE)
		free(scene.host);
	else
		gpu.cuMemFreeHost(scene.host);
	free(scene.source);
	free(scene.expected);
	free(scene.seen);
}

static void ask_forms(const struct form *forms, size_t count, const char *suffix, enum host host)
{
	char question[64];

	for (size_t i = 0; i < count; i++) {
		snprintf(question, sizeof(question), "%s%s", forms[i].question, suffix);
		ASK(question, ask_with_host(&forms[i], question, host));
	}
}

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

void ask_copies(void)
{
	ask_forms(moves, COUNT(moves), "", PAGEABLE);
	ask_forms(copies, COUNT(copies), "_pageable", PAGEABLE);
	ask_forms(copies, COUNT(copies), "_pinned", PINNED);
}

void ask_fills(void)
{
	ask_forms(fills, COUNT(fills), "", PAGEABLE);
}

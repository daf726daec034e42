/* SPDX-License-Identifier: MIT */
/*
 * Things that were made for memory, and are used after other memory took its place at the same
 * address: textures, numbers, graphs.
 */
#include "tests/gpu/questions/question.h"

#include <stdint.h>

enum { BEFORE = 7, AFTER = 9, WORDS = 2 << 20 >> 2 };

static void ask_texture(const struct question *q)
{
	struct range range;
	CUdeviceptr out = 0;
	CUtexObject texture = 0;
	unsigned seen = 0;

	range_make(&range, "d", small_chunk);
	ATTEMPT(cuMemAlloc(&out, sizeof(seen)));
	ATTEMPT(cuMemsetD32(range.base, BEFORE, WORDS));
	CUDA_RESOURCE_DESC resource = {
	    .resType = CU_RESOURCE_TYPE_LINEAR,
	    .res.linear = {.devPtr = range.base,
	                   .format = CU_AD_FORMAT_UNSIGNED_INT32,
	                   .numChannels = 1,
	                   .sizeInBytes = small_chunk},
	};
	CUDA_TEXTURE_DESC description = {.flags = CU_TRSF_READ_AS_INTEGER};
	ATTEMPT(cuTexObjectCreate(&texture, &resource, &description, NULL));
	gpu_kernel_of("kernels_texture.ptx", "fetch");
	if (not_asked(q))
		return;
	map_anew(&range, 'h');
	ATTEMPT(cuMemsetD32(range.base, AFTER, WORDS));
	launch("kernels_texture.ptx", "fetch", 1, 1, NULL, (void *[]){&texture, &out});
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuMemcpyDtoH(&seen, out, sizeof(seen)));
	if (!refused(q))
		answer(q->name, seen == AFTER ? "yes" : "wrong bytes", "%u, %d written", seen,
		       AFTER);
}

static void ask_buffer_id(const struct question *q)
{
	struct range range;
	uint64_t before = 0, inside = 0, after = 0;

	range_make(&range, "d", small_chunk);
	ATTEMPT(cuPointerGetAttribute(&before, CU_POINTER_ATTRIBUTE_BUFFER_ID, range.base));
	ATTEMPT(cuPointerGetAttribute(&inside, CU_POINTER_ATTRIBUTE_BUFFER_ID, range.base + 4096));
	map_anew(&range, 'h');
	ATTEMPT(cuPointerGetAttribute(&after, CU_POINTER_ATTRIBUTE_BUFFER_ID, range.base));
	if (!not_asked(q))
		answer(q->name, before == after ? "same" : "changes",
		       "%llu, inside %llu, after a move %llu", (unsigned long long)before,
		       (unsigned long long)inside, (unsigned long long)after);
}

/*
 * kinds: where the memory is when it is captured, where the copy goes ('p': pinned), where the
 * memory is later.
 */
static void ask_graph(const struct question *q)
{
	const char from[2] = {q->kinds[0]}, to[2] = {q->kinds[1]};
	struct range range, target;
	uint32_t *host = NULL, seen = 0;
	CUgraph graph = NULL;
	CUgraphExec executable = NULL;
	CUresult called;

	range_make(&range, from, small_chunk);
	if (*to == 'p')
		ATTEMPT(cuMemHostAlloc((void **)&host, small_chunk, 0));
	else
		range_make(&target, to, small_chunk);
	ATTEMPT(cuMemsetD32(range.base, BEFORE, WORDS));
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	if (not_asked(q))
		return;
	if (*to == 'p')
		called = gpu.cuMemcpyDtoHAsync(host, range.base, small_chunk, stream);
	else
		called = gpu.cuMemcpyDtoDAsync(target.base, range.base, small_chunk, stream);
	CUresult ended = gpu.cuStreamEndCapture(stream, &graph);
	if (called != CUDA_SUCCESS || ended != CUDA_SUCCESS) {
		answer(q->name, "not captured", "%s, end %s", gpu_error_name(called),
		       gpu_error_name(ended));
		return;
	}
	ATTEMPT(cuGraphInstantiate(&executable, graph, 0));
	ATTEMPT(cuGraphLaunch(executable, stream));
	ATTEMPT(cuStreamSynchronize(stream));
	map_anew(&range, q->kinds[2]);
	ATTEMPT(cuMemsetD32(range.base, AFTER, WORDS));
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuGraphLaunch(executable, stream));
	ATTEMPT(cuStreamSynchronize(stream));
	if (*to == 'p')
		seen = host ? host[WORDS - 1] : 0;
	else
		ATTEMPT(
		    cuMemcpyDtoH(&seen, target.base + small_chunk - sizeof(seen), sizeof(seen)));
	if (!refused(q))
		answer(q->name, seen == AFTER ? "yes" : "wrong bytes", "%u, %d written", seen,
		       AFTER);
}

#define GRAPH(given, what, places)                                                               \
	{                                                                                        \
		.name = given, .risk = "2",                                                      \
		.asks = "A graph copies " what ": does a later launch copy what is there then?", \
		.counted_on = "yes", .then = "captured copies do not pin: their memory moves",   \
		.otherwise =                                                                     \
		    "pin what a capture's copies name, or promote it before it is captured",     \
		.ask = ask_graph, .kinds = places                                                \
	}

const struct question moved_questions[] = {
    {.name = "texture_after_remap",
     .risk = "-",
     .asks = "Does a texture show what was mapped at its address after it was made?",
     .counted_on = "yes",
     .then = "memory under textures moves",
     .otherwise = "pin what textures are made of",
     .ask = ask_texture},
    {.name = "buffer_id_of_remapped",
     .risk = "17",
     .asks = "Does an address keep the number of its buffer when other memory is mapped there?",
     .counted_on = "same",
     .then = "the driver's number is passed on",
     .otherwise = "answer a number of the allocation: caches of registrations compare it",
     .ask = ask_buffer_id},
    GRAPH("graph_spilled_to_pinned_then_device",
          "spilled memory to pinned, which then comes to the device", "hpd"),
    GRAPH("graph_spilled_to_spilled_then_device",
          "spilled memory to spilled, whose source then comes to the device", "hhd"),
    GRAPH("graph_spilled_to_device_then_device",
          "spilled memory to the device, and it then comes there", "hdd"),
    GRAPH("graph_device_to_spilled_then_spilled",
          "device memory to spilled, which is then spilled itself", "dhh"),
    GRAPH("graph_device_to_pinned_then_spilled", "device memory to pinned, which is then spilled",
          "dph"),
    {0},
};

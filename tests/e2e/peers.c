/* SPDX-License-Identifier: MIT */
/*
 * peers: two devices reach each other's memory in every way, each answer a line. The transcript is
 * to be the same with any library between the program and the driver.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 1 << 18, BYTES = WORDS * 4, PAGE = 2 << 20 };

static const char kernels[] = ".version 6.4\n.target sm_50\n.address_size 64\n"
                              ".visible .entry add_one(.param .u64 to, .param .u64 from)\n"
                              "{\n"
                              "	.reg .b32 %r<6>;\n"
                              "	.reg .b64 %d<6>;\n"
                              "	ld.param.u64 %d1, [to];\n"
                              "	ld.param.u64 %d2, [from];\n"
                              "	mov.u32 %r1, %ctaid.x;\n"
                              "	mov.u32 %r2, %ntid.x;\n"
                              "	mov.u32 %r3, %tid.x;\n"
                              "	mad.lo.s32 %r4, %r1, %r2, %r3;\n"
                              "	mul.wide.u32 %d3, %r4, 4;\n"
                              "	add.s64 %d4, %d1, %d3;\n"
                              "	add.s64 %d5, %d2, %d3;\n"
                              "	ld.global.u32 %r5, [%d5];\n"
                              "	add.s32 %r5, %r5, 1;\n"
                              "	st.global.u32 [%d4], %r5;\n"
                              "	ret;\n"
                              "}\n";

static CUcontext context[2];
static CUfunction add_one[2];
static uint32_t words[WORDS];

static void answer(const char *call, CUresult result)
{
	printf("%s: %d\n", call, (int)result);
}
#define SAY(call) answer(#call, call)

/* Without these there is nothing to say. */
static void need(const char *call, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	answer(call, result);
	exit(2);
}
#define NEED(call) need(#call, call)

static void use(int device)
{
	NEED(cuCtxSetCurrent(context[device]));
}

static void start(int ordinal)
{
	CUmodule module;
	CUdevice device;

	NEED(cuDeviceGet(&device, ordinal));
	NEED(cuDevicePrimaryCtxRetain(&context[ordinal], device));
	use(ordinal);
	NEED(cuModuleLoadData(&module, kernels));
	NEED(cuModuleGetFunction(&add_one[ordinal], module, "add_one"));
}

static CUdeviceptr filled(int device, uint32_t value)
{
	CUdeviceptr address;

	use(device);
	NEED(cuMemAlloc_v2(&address, BYTES));
	NEED(cuMemsetD32_v2(address, value, WORDS));
	NEED(cuCtxSynchronize());
	return address;
}

/* Says which value all words have, or that they differ. */
static void say_words(const char *what, CUdeviceptr address)
{
	int differ = 0;

	memset(words, 0, sizeof(words));
	NEED(cuMemcpyDtoH_v2(words, address, BYTES));
	for (int i = 1; i < WORDS; i++)
		differ += words[i] != words[0];
	printf("%s: %u differ=%d\n", what, (unsigned)words[0], differ);
}

/* A kernel on `device` reads one address and writes another. */
static void run(const char *what, int device, CUdeviceptr to, CUdeviceptr from)
{
	void *parameters[] = {&to, &from};

	use(device);
	answer(what, cuLaunchKernel(add_one[device], WORDS / 256, 1, 1, 256, 1, 1, 0, NULL,
	                            parameters, NULL));
	answer(what, cuCtxSynchronize());
	say_words(what, to);
}

static void say_attributes(void)
{
	for (int i = 0; i < 2; i++) {
		int can = -1, value = -1;

		SAY(cuDeviceCanAccessPeer(&can, i, 1 - i));
		printf("can=%d\n", can);
		for (int a = CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
		     a <= CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED; a++) {
			answer("p2p",
			       cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)a, i, 1 - i));
			printf("attribute %d=%d\n", a, value);
		}
	}
}

static void say_pointer(const char *what, CUdeviceptr address)
{
	CUcontext owner = NULL;
	unsigned int type = 0, ordinal = 99;

	answer(what, cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address));
	answer(what, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
	answer(what, cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
	printf("%s: of context %d, type %u, device %u\n", what,
	       owner == context[0]   ? 0
	       : owner == context[1] ? 1
	                             : -1,
	       type, ordinal);
}

static void copies(CUdeviceptr here, CUdeviceptr there)
{
	CUDA_MEMCPY3D_PEER box = {0};

	use(0);
	SAY(cuMemcpyPeer(here, context[0], there, context[1], BYTES));
	say_words("cuMemcpyPeer", here);
	NEED(cuMemsetD32_v2(here, 5, WORDS));
	SAY(cuMemcpyPeerAsync(there, context[1], here, context[0], BYTES, NULL));
	SAY(cuCtxSynchronize());
	say_words("cuMemcpyPeerAsync", there);
	box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	box.srcDevice = there;
	box.srcContext = context[1];
	box.dstDevice = here;
	box.dstContext = context[0];
	box.WidthInBytes = box.srcPitch = box.dstPitch = 1024;
	box.Height = box.srcHeight = box.dstHeight = BYTES / 1024;
	box.Depth = 1;
	NEED(cuMemsetD32_v2(here, 0, WORDS));
	SAY(cuMemcpy3DPeer(&box));
	say_words("cuMemcpy3DPeer", here);
	SAY(cuMemcpyDtoD_v2(there, here, BYTES));
	say_words("cuMemcpyDtoD", there);
}

/* Stream-ordered memory is reached by a right its pool gives. */
static void pools(CUdeviceptr here)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CUdeviceptr there = 0;
	CUmemoryPool pool;
	CUdevice device;

	use(1);
	NEED(cuDeviceGet(&device, 1));
	SAY(cuDeviceGetDefaultMemPool(&pool, device));
	SAY(cuMemPoolSetAccess(pool, &access, 1));
	SAY(cuMemPoolGetAccess(&flags, pool, &access.location));
	printf("flags=%d\n", (int)flags);
	SAY(cuMemAllocAsync(&there, BYTES, NULL));
	NEED(cuMemsetD32_v2(there, 70, WORDS));
	NEED(cuCtxSynchronize());
	run("from the peer's pool", 0, here, there);
	use(1);
	SAY(cuMemFreeAsync(there, NULL));
}

static void virtual_memory(CUdeviceptr here)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemAccessDesc access[2] = {{.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
	                             {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr there = 0;

	prop.location.type = access[0].location.type = access[1].location.type =
	    CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = access[1].location.id = 1;
	SAY(cuMemCreate(&handle, PAGE, &prop, 0));
	SAY(cuMemAddressReserve(&there, PAGE, 0, 0, 0));
	SAY(cuMemMap(there, PAGE, 0, handle, 0));
	SAY(cuMemSetAccess(there, PAGE, access, 2));
	use(1);
	NEED(cuMemsetD32_v2(there, 90, WORDS));
	NEED(cuCtxSynchronize());
	run("from memory mapped for both", 0, here, there);
	SAY(cuMemUnmap(there, PAGE));
	SAY(cuMemAddressFree(there, PAGE));
	SAY(cuMemRelease(handle));
}

int main(void)
{
	CUdeviceptr here, there, later;

	NEED(cuInit(0));
	start(0);
	start(1);
	say_attributes();
	here = filled(0, 10);
	there = filled(1, 20);
	copies(here, there);

	use(0);
	SAY(cuCtxEnablePeerAccess(context[1], 0));
	SAY(cuCtxEnablePeerAccess(context[1], 0));
	SAY(cuCtxEnablePeerAccess(context[1], 1));
	SAY(cuCtxEnablePeerAccess(context[0], 0));
	use(1);
	SAY(cuCtxEnablePeerAccess(context[0], 0));
	later = filled(1, 30);
	run("from the peer", 0, here, there);
	run("to the peer", 0, there, here);
	run("from the peer, other way", 1, there, here);
	run("from memory allocated later", 0, here, later);
	use(0);
	say_pointer("here", here);
	say_pointer("there", there);
	copies(here, there);
	pools(here);
	virtual_memory(here);

	use(0);
	SAY(cuMemFree_v2(there));
	SAY(cuMemFree_v2(later));
	SAY(cuCtxDisablePeerAccess(context[1]));
	SAY(cuCtxDisablePeerAccess(context[1]));
	SAY(cuMemFree_v2(here));
	SAY(cuDevicePrimaryCtxRelease_v2(0));
	SAY(cuDevicePrimaryCtxRelease_v2(1));
	printf("done\n");
	return 0;
}

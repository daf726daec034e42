/* SPDX-License-Identifier: MIT */
/* Memory, semaphores and resources of other APIs. The maker of the memory is charged for it. */
#include "shim/interop.h"

#include "shim/track.h"

AFTER(cuImportExternalMemory, (CUexternalMemory *, extMem_out),
      (const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *, memHandleDesc))
{
	if (extMem_out && memHandleDesc)
		track(&object_type_external_memory, HANDLE(*extMem_out), memHandleDesc->size);
}

DESTROYS(cuDestroyExternalMemory, external_memory, extMem, (CUexternalMemory, extMem))

_Atomic bool track_any_mapped_buffer;

HOOK(cuExternalMemoryGetMappedBuffer, CUdeviceptr *devPtr, CUexternalMemory extMem,
     const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
	atomic_store(&track_any_mapped_buffer, true);
	return HANDED_OUT(REAL(cuExternalMemoryGetMappedBuffer)(devPtr, extMem, bufferDesc),
	                  mapped_buffer, devPtr, NULL, external_memory, extMem);
}

HANDS_OUT(cuExternalMemoryGetMappedMipmappedArray, mipmapped_array, mipmap, external_memory, extMem,
          (CUmipmappedArray *, mipmap), (CUexternalMemory, extMem),
          (const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *, mipmapDesc))
CREATES(cuImportExternalSemaphore, external_semaphore, extSem_out,
        (CUexternalSemaphore *, extSem_out),
        (const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *, semHandleDesc))
DESTROYS(cuDestroyExternalSemaphore, external_semaphore, extSem, (CUexternalSemaphore, extSem))

CREATES(cuGraphicsGLRegisterBuffer, graphics_resource, pCudaResource,
        (CUgraphicsResource *, pCudaResource), (gl_uint, buffer), (unsigned int, Flags))
CREATES(cuGraphicsGLRegisterImage, graphics_resource, pCudaResource,
        (CUgraphicsResource *, pCudaResource), (gl_uint, image), (gl_enum, target),
        (unsigned int, Flags))
CREATES(cuGraphicsEGLRegisterImage, graphics_resource, pCudaResource,
        (CUgraphicsResource *, pCudaResource), (egl_image, image), (unsigned int, flags))
CREATES(cuGraphicsVDPAURegisterVideoSurface, graphics_resource, pCudaResource,
        (CUgraphicsResource *, pCudaResource), (vdp_handle, vdpSurface), (unsigned int, flags))
CREATES(cuGraphicsVDPAURegisterOutputSurface, graphics_resource, pCudaResource,
        (CUgraphicsResource *, pCudaResource), (vdp_handle, vdpSurface), (unsigned int, flags))
DESTROYS(cuGraphicsUnregisterResource, graphics_resource, resource, (CUgraphicsResource, resource))

/* SPDX-License-Identifier: MIT */
/*
 * The driver's functions for OpenGL, EGL and VDPAU that Spillway hooks. cudaGL.h, cudaEGL.h and
 * cudaVDPAU.h declare them in terms of those APIs' own headers, which need not be here; the types
 * below are theirs by width: GLuint, GLenum, VdpDevice and the VDPAU surfaces are 32-bit numbers,
 * an EGLImage is a pointer.
 */
#ifndef SPILLWAY_INTEROP_H
#define SPILLWAY_INTEROP_H

#include "shim/shim.h"

typedef uint32_t gl_uint;
typedef uint32_t gl_enum;
typedef uint32_t vdp_handle;
typedef void *egl_image;
typedef void vdp_get_proc_address; /* only pointed to */

CUresult cuGLCtxCreate(CUcontext *pCtx, unsigned int Flags, CUdevice device);
CUresult cuGLCtxCreate_v2(CUcontext *pCtx, unsigned int Flags, CUdevice device);
CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource *pCudaResource, gl_uint buffer,
                                    unsigned int Flags);
CUresult cuGraphicsGLRegisterImage(CUgraphicsResource *pCudaResource, gl_uint image, gl_enum target,
                                   unsigned int Flags);
CUresult cuGraphicsEGLRegisterImage(CUgraphicsResource *pCudaResource, egl_image image,
                                    unsigned int flags);
CUresult cuVDPAUCtxCreate(CUcontext *pCtx, unsigned int flags, CUdevice device,
                          vdp_handle vdpDevice, vdp_get_proc_address *vdpGetProcAddress);
CUresult cuVDPAUCtxCreate_v2(CUcontext *pCtx, unsigned int flags, CUdevice device,
                             vdp_handle vdpDevice, vdp_get_proc_address *vdpGetProcAddress);
CUresult cuGraphicsVDPAURegisterVideoSurface(CUgraphicsResource *pCudaResource,
                                             vdp_handle vdpSurface, unsigned int flags);
CUresult cuGraphicsVDPAURegisterOutputSurface(CUgraphicsResource *pCudaResource,
                                              vdp_handle vdpSurface, unsigned int flags);

#endif

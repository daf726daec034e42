/* SPDX-License-Identifier: MIT */
/*
 * The role of libvgpu.so: HAMi and its kin mount this one file into a container. The library opened
 * in place of NVML is within it.
 */
#include "shim/role.h"

#ifndef STAND_IN_FOR_NVML
#define STAND_IN_FOR_NVML "/dev/null"
#endif

extern const char shim_nvml_image[], shim_nvml_image_end[] __attribute__((visibility("hidden")));

__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        ".globl shim_nvml_image, shim_nvml_image_end\n"
        ".hidden shim_nvml_image, shim_nvml_image_end\n"
        "shim_nvml_image:\n"
        ".incbin \"" STAND_IN_FOR_NVML "\"\n"
        "shim_nvml_image_end:\n"
        ".popsection\n");

const struct shim_role shim_role = {true, shim_nvml_image, shim_nvml_image_end};

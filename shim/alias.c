/* SPDX-License-Identifier: MIT */
/*
 * libspillway-alias.so: empty, with the SONAME libcuda.so, for programs that ask for that name
 * first. It needs libcuda.so.1, which the loader answers with the shim.
 */
extern const char spillway_alias[];
const char spillway_alias[] __attribute__((visibility("hidden"))) = "alias of libspillway.so";

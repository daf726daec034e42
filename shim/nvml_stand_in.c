/* SPDX-License-Identifier: MIT */
/*
 * libspillway-nvml.so: empty. A program that opens NVML gets it, see nvml.c; it needs the shim, and
 * after that libnvidia-ml.so.1.
 */
extern const char spillway_nvml[];
const char spillway_nvml[] __attribute__((visibility("hidden"))) =
    "stands before libnvidia-ml.so.1";

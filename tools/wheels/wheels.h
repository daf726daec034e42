/* SPDX-License-Identifier: MIT */
/*
 * Wheels: the frameworks that a program's Python would import, and stand-ins for the libraries of
 * NVIDIA's that they want and the software GPU has not. The stand-ins are generated from the wheels
 * that are there, once for each version of them, in a cache folder of the user.
 *
 * Example: for `python train.py` with torch 2.15 in its environment $HOME/.cache/spillway/
 * stand-ins/torch-HASH gets libcufft.so.12 with the 7 functions that libtorch_cuda.so leaves
 * undefined, and 10 libraries more.
 */
#ifndef SPILLWAY_WHEELS_H
#define SPILLWAY_WHEELS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* A variable: the tool's path, for a Python whose packages are not known yet. */
#define WHEELS_TOOL "SOFTGPU_TOOL"
/* The tool's command that looks for them and becomes the Python. */
#define WHEELS_COMMAND "python"

/* Folders, "" where there is none. */
struct wheels {
	char torch[PATH_MAX];
	char tensorflow[PATH_MAX];
	char
	    libdevice[PATH_MAX]; /* the file of Triton's wheel with CUDA's mathematical functions */
	char stand_ins[PATH_MAX]; /* perhaps not made yet */
};

/*
 * Asks a Python. name: its argv[0], by which it finds its virtual environment. softgpu: the
 * software GPU's folder. Returns whether a wheel is found that wants stand-ins.
 */
bool wheels_find(struct wheels *wheels, const char *python, const char *name, const char *softgpu);
/*
 * Makes the stand-ins where they are not there. With libdevice the folder gets cuda/, a toolkit's
 * folder as XLA looks for one. Returns false, and why, where they cannot be made.
 */
bool wheels_make(const struct wheels *wheels, const char *softgpu, char *message, size_t size);

#endif

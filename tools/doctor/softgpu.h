/* SPDX-License-Identifier: MIT */
/*
 * The environment of a program on the software GPU: where frameworks find a compiler for PTX and
 * NVIDIA's libraries, and which of their ways the software GPU goes. A variable, flag or attribute
 * that the user has set stays.
 */
#ifndef SPILLWAY_SOFTGPU_H
#define SPILLWAY_SOFTGPU_H

/* Sets the variables for the software GPU in FOLDER that the user has not set. */
void softgpu_be_found(const char *folder);
/*
 * "spillway python PATH NAME ARGUMENTS...", as libsoftgpu-node.so starts it in place of a Python:
 * generates stand-ins for libraries that the wheels of this Python want (wheels.h), sets their
 * variables, and becomes the Python at PATH, with NAME as its argv[0]. words: PATH and all behind
 * it. Returns the exit status where it cannot.
 */
int softgpu_become_python(char **words);
/* Prints what is set by `spillway run --softgpu` for a program; NULL: for python3. */
void softgpu_report(const char *folder, const char *program);

#endif

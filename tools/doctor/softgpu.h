/* SPDX-License-Identifier: MIT */
/*
 * The environment of a program on the software GPU: where frameworks find a compiler for PTX and
 * NVIDIA's libraries, and which of their ways the software GPU goes. A variable, flag or attribute
 * that the user has set stays.
 */
#ifndef SPILLWAY_SOFTGPU_H
#define SPILLWAY_SOFTGPU_H

/* Says that a variable was set. */
typedef void softgpu_say(const char *name, const char *value);

/*
 * Sets variables in our environment for the software GPU in FOLDER and the program, where the user
 * has not set them. Generates stand-ins for libraries that the program's wheels want (wheels.h).
 */
void softgpu_be_found(const char *folder, char *const *program, softgpu_say *say);
/* Says what `spillway run --softgpu` sets for a program; NULL: for python3. */
void softgpu_report(const char *folder, const char *program);

#endif

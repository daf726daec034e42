/* SPDX-License-Identifier: MIT */
/*
 * The samples share this. A sample checks the device's results against the same computation on the
 * host, and prints a line per check. Its last line is the verdict. It ends with 0 when all passed,
 * with 1 when one failed, with 77 and the reason when the driver lacks its subject.
 *
 * Nothing that differs between two good runs is printed, so that two runs can be compared.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/clients/client.h"
#include "tests/clients/program.h"

/* Device 0 with its primary context current, and the module of the file beside the program; no
 * module for NULL. */
CUmodule sample_open(const char *ptx_file);

/* Prints "PASS what" or "FAIL what". */
void sample_check(bool passed, const char *what, ...) __attribute__((format(printf, 2, 3)));

/* The call gives this status; anything else is a failed check that names both. */
#define SAMPLE_EXPECT(expected, call) sample_expect((expected), (call), #call)
void sample_expect(CUresult expected, CUresult got, const char *call);

/* Ends the program with 77 if the driver answers that it does not support the call. */
#define SAMPLE_NEEDS(call) sample_needs((call), #call)
void sample_needs(CUresult result, const char *call);
void sample_skip(const char *reason, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The verdict, printed; what main returns. Closes the device. */
int sample_end(void);

/* Host memory, zeroed, or the end of the program. */
void *sample_memory(size_t bytes);

/* The same sequence in each run. */
uint32_t sample_random(void);
float sample_random_float(void); /* [-1, 1) */

/* Device memory with a copy of these bytes; and back. */
CUdeviceptr sample_upload(const void *bytes, size_t size);
void sample_download(void *bytes, CUdeviceptr pointer, size_t size);

#endif

/* SPDX-License-Identifier: MIT */
/* Any small program needs this, with or without CUDA. */
#ifndef PROGRAM_H
#define PROGRAM_H

/* Says so on stderr, after the program's name, and ends the program with status 1. */
void program_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* A file in the folder of the running program, ended by a NUL; the caller frees it. */
char *program_read_beside(const char *file);

/* The value of a command line option: a whole number within [min, max], or the program ends. */
long program_number(const char *option, const char *text, long min, long max);

double program_now_ms(void);

#endif

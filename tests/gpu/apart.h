/* SPDX-License-Identifier: MIT */
/*
 * Questions that are each asked in a process of their own, and their answers in print. A question
 * that breaks something breaks no other. A process that dies, or does not end in time, is an
 * answer, too.
 */
#ifndef APART_H
#define APART_H

#include <stdbool.h>

/*
 * Sets the format by the option that names it (NULL: text; "--json=FILE": text, and one object in
 * that file), and the seconds that a question has; false: no such format, or no such file.
 */
bool apart_format(const char *option, int seconds);

/*
 * if (apart_begin("question")) { ...; answer("question", ...); apart_end(); } is true in the new
 * process alone.
 */
bool apart_begin(const char *question);
void apart_end(void) __attribute__((noreturn));

/* Gives the answer to a question, once. */
void answer(const char *question, const char *reply, const char *evidence, ...)
    __attribute__((format(printf, 3, 4)));

/* The reply to the question asked last, as it was printed. */
const char *apart_last_reply(void);

/* Ends what was printed; false: a process died, did not end in time, or said nothing. */
bool apart_finish(void);

#endif

/* SPDX-License-Identifier: MIT */
/* Finds the intended word for a mistyped key, command or option. */
#ifndef SPILLWAY_NEAREST_H
#define SPILLWAY_NEAREST_H

enum { NEAREST_SLIP = 2 }; /* further off is another word */

/* Returns how many letters to insert, delete or replace to make one word the other. */
int nearest_distance(const char *from, const char *to);
/* Finds the word of a NULL-terminated list that was probably meant; NULL: none is close. */
const char *nearest_word(const char *word, const char *const *words);

#endif

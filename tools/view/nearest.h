/*
 * How far one word is from another: for those who mistype a command or an option.
 */
#ifndef SPILLWAY_NEAREST_H
#define SPILLWAY_NEAREST_H

#include <stddef.h>

enum { NEAREST_SLIP = 2 }; /* further off is no likely slip */

/* Returns how many letters to insert, delete or replace to make one word the other. */
size_t nearest_distance(const char *from, const char *to);

#endif

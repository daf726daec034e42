/* SPDX-License-Identifier: MIT */
/*
 * Kept: one object that the calling thread has freed, for the next of its kind. It costs a tenth of
 * free() and malloc(). There is one kind; its objects are of one size, of malloc(), and go with
 * their thread.
 */
#ifndef SPILLWAY_KEPT_H
#define SPILLWAY_KEPT_H

/* Takes the kept record; NULL: there is none. */
void *kept_take(void);
/* Keeps an object, or frees it where one is kept already. */
void kept_give(void *object);

#endif

/* SPDX-License-Identifier: MIT */
/* The handing-out driver's state, exported by it as `giver`. */
#ifndef SPILLWAY_GIVER_H
#define SPILLWAY_GIVER_H

#include <stdatomic.h>
#include <stdint.h>

#include "shim/attach.h"

enum { GIVER_POOL = 0x8000 };

struct giver {
	_Atomic uint64_t next;       /* handle that the next object gets */
	_Atomic uint64_t again;      /* handle that objects get instead; 0: none */
	_Atomic uint64_t pool;       /* the device's */
	_Atomic uint64_t used;       /* bytes of the device in use */
	_Atomic uint64_t takes;      /* bytes that each object adds to it */
	_Atomic int state;           /* what a checkpoint query answers */
	_Atomic int is_capturing;    /* what a stream answers */
	_Atomic uint64_t of_streams; /* their context; 0: the current one */
	_Atomic int
	    during_row; /* its next call calls during(), once it is done and before it returns */
	void (*_Atomic during)(void);
	struct {
		_Atomic int answer;         /* instead of success */
		_Atomic unsigned int calls; /* that succeeded */
		signed char out;  /* parameter by which the object is handed out, from 1; 0: none */
		signed char size; /* of what it points to; 0: 8 */
	} row[ENTRY_COUNT];
};

#endif

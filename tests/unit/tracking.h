/* SPDX-License-Identifier: MIT */
/*
 * The tests of tracking share this: the shim's hooks over the handing-out driver, called by the
 * row.
 */
#ifndef SPILLWAY_TEST_TRACKING_H
#define SPILLWAY_TEST_TRACKING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/job/job.h"
#include "core/registry/object.h"
#include "tests/unit/giver.h"

struct argument {
	int at;
	uint64_t value;
};

enum { ENDS = 6, GIVEN = 1, STAYS = 2, FREE = 4, SAME = 8, COUNTED = 16, UNIQUE = 32, ANEW = 64 };

/*
 * GIVEN    the object is an argument, and not handed out
 * STAYS    it does not go with its owner
 * FREE     it does not go with the context it was made in
 * SAME     handed out again it is the same, in one owner or context
 * COUNTED  likewise, and each time is to be ended
 * UNIQUE   the driver gives no other
 * ANEW     handed out again it is another, although it has an owner
 */
struct line {
	enum entry create;
	int at; /* the parameter with the object */
	const char *type;
	int owner; /* the line that makes what it goes with; 0: nobody */
	int owner_at;
	unsigned int flags;
	struct argument with[2]; /* other arguments that matter, where not all are 0 */
	int place_at;            /* parameter that points to a CUmemLocation, from 1 */
	size_t place;            /* so many bytes into it */
	int out_size;
	enum entry end[ENDS]; /* what destroys it, its handle being the first argument */
};

/* A line for each row that creates; an owner's line stands before those of what it owns. */
extern const struct line lines[];
extern const size_t line_count;
const struct line *line_of(int create);

extern struct giver *giver;
extern int failures;
/* Rows that some line or check was about. */
extern _Atomic bool was_exercised[ENTRY_COUNT];
extern const char *const row_name[ENTRY_COUNT], *const row_action[ENTRY_COUNT];
extern const char *const row_parameters[ENTRY_COUNT]; /* signatures.h */

#define FAIL(...)             (printf(__VA_ARGS__), putchar('\n'), failures++)
#define CHECK(condition, ...) ((condition) ? (void)0 : (void)FAIL(__VA_ARGS__))
#define WORD(value)           ((uint64_t)(uintptr_t)(value))

/* The driver library's tables filled; the job is not active before begin_job(). */
bool open_driver(void);
void begin_job(void);

/* Through the hook; what is not given is zeroed memory for a pointer, and a small number. */
CUresult call_row(enum entry entry, const struct argument *arguments, size_t count);
#define CALL(symbol, ...)                                                 \
	(atomic_store(&was_exercised[ENTRY_##symbol], true),              \
	 call_row(ENTRY_##symbol, (const struct argument[]){__VA_ARGS__}, \
	          sizeof((const struct argument[]){__VA_ARGS__}) / sizeof(struct argument)))
/* As the program's libraries do behind our back. */
#define BEHIND(symbol, ...) (REAL(symbol)(__VA_ARGS__))

/* How many resources of the type, NULL: of all, the books hold. */
size_t books(const char *type);
/* Returns when the one at this address was entered; 0: there is none. */
uint64_t in_books(const char *type, uint64_t object);
uint64_t new_handle(void);
CUcontext new_context(void); /* current now */

/* Rows that change or ask. */
void check_changes(void);
/* Checks what acts on launches and allocations. */
void check_actions(void);
/* A million objects. */
void check_soak(void);

#endif

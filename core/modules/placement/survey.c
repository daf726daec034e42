/* SPDX-License-Identifier: MIT */
/*
 * Surveys. Rules: the calls of the program's threads run around their launches, while there is a
 * survey: it makes events, waits for nothing, and allocates nothing but a list of runs. A launch
 * that is only looked at takes none of its locks but PARAMETERS.
 */
#include "core/modules/placement/survey.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/late.h"
#include "core/base/lock.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/modules/placement/touch.h"

/*
 * Repeats: the period of a program that launches the same again and again, exactly, with the same
 * memory, as most trainings do: it is known when it has come twice. A program that launches the
 * same in another order or with other memory each time has none here, and its steps are found by
 * core/modules/steps.
 *
 * Nothing here has a clock, takes a lock or calls the driver. A launch costs two look-ups.
 */

/* The longest period that is found, and how many launches are looked at until one begins. */
enum { REPEATS_LONGEST = 1 << 13, REPEATS_PATIENCE = 1 << 16 };

struct repeats;

enum { KEPT = 2 * REPEATS_LONGEST, SLOT_BITS = 15 };

struct repeats {
	uint64_t count;        /* launches so far */
	uint64_t launch[KEPT]; /* the newest of them, each at its number modulo KEPT */
	uint64_t met
	    [1 << SLOT_BITS]; /* by the launched function: the number it had last, and 1; 0: none */
	uint64_t period;      /* suggested; 0: none is */
	uint64_t since;       /* the number of the first launch that bears it out */
};

static uint64_t launch_at(const struct repeats *r, uint64_t number)
{
	return r->launch[number % KEPT];
}

/* Returns how many launches ago the newest one was met last, or 0. */
static uint64_t distance(const struct repeats *r, uint64_t met)
{
	uint64_t number = r->count - 1;

	if (!met || number - (met - 1) > REPEATS_LONGEST ||
	    launch_at(r, met - 1) != launch_at(r, number))
		return 0;
	return number - (met - 1);
}

static bool has_period(const struct repeats *r)
{
	uint64_t before = r->since - r->period, repeated = r->count - r->since;

	return r->period && repeated >= r->period && repeated + r->period >= before;
}

/*
 * Takes a launch: a value that all launches with the same work and the same memory share. Returns
 * false once nothing has come back for so long that there is no period.
 */
static bool repeats_take(struct repeats *r, uint64_t launch)
{
	uint64_t *slot = &r->met[launch * 0x9e3779b97f4a7c15u >> (64 - SLOT_BITS)];
	uint64_t met = *slot;

	r->launch[r->count % KEPT] = launch;
	*slot = ++r->count;
	if (!r->period || launch_at(r, r->count - 1 - r->period) != launch) {
		r->period = distance(r, met);
		r->since = r->count - 1;
	}
	return r->count <= REPEATS_PATIENCE || has_period(r);
}

/*
 * Returns the launches of a period that has come twice, still goes on, and was more than half of
 * all launches; or 0. *since: another number whenever another one began.
 */
static size_t repeats_period(const struct repeats *r, uint64_t *since)
{
	*since = r->since;
	return has_period(r) ? (size_t)r->period : 0;
}

/* The events around a launch. */
struct measured {
	CUcontext context;
	CUevent begin, end;
	bool is_ended; /* its end was recorded */
};

static LOCK_OF(SURVEY) lock = LOCK_FREE;
static void (*ask)(int ordinal, bool launches, bool steps);

/* All but the atomic fields, which are read without the lock, belongs to the lock's holder. */
static struct {
	_Atomic enum survey_state state;
	_Atomic uint64_t number; /* of this survey, from 1 on */
	_Atomic int ordinal;
	bool has_times;
	int steps; /* that have ended since the first */
	uint64_t until;
	uint64_t began_ns;
	_Atomic(struct repeats *) repeats; /* while repeats are sought; NULL: they are not */
	bool asks_steps, rests;   /* rests: launches are not reported until the next look */
	uint64_t look, look_ns;   /* the first launch of this look, and when it began */
	bool takes_steps;         /* nothing has come again: steps that are told are taken */
	uint64_t tried, tried_ns; /* the repeat, by the launch it began with; since when */
	size_t launches; /* that are taken, where it is known how many; 0: until steps have ended */
	const char *failure;
	struct survey found;
	struct measured *measured; /* of each kernel */
	size_t read;               /* so many of the first have their time */
} s;

/*
 * The launches that are looked at. A thread takes the next number, and leaves the launch's value in
 * the place of that number. So the values are in the order of launches of all threads, which
 * buffers of the threads' own would not keep. The first survey maps them. The lock's holder reads
 * them. A thread that finds no room becomes that holder. The value of a thread that stalls between
 * the two steps is left out.
 */
static struct {
	_Atomic uint64_t taken, read; /* numbers */
	_Atomic(void *) values;       /* late memory: SURVEY_LOOK_ROOM values; 0: not there yet */
} looked;

void survey_serve(void (*who)(int ordinal, bool launches, bool steps))
{
	ask = who;
}

static enum survey_state state(void)
{
	return atomic_load_explicit(&s.state, memory_order_relaxed);
}

static void set_state(enum survey_state to)
{
	atomic_store_explicit(&s.state, to, memory_order_relaxed);
}

/* With the lock held. */
static void survey_fail(const char *why)
{
	s.failure = why;
	set_state(SURVEY_FAILED);
}

/* --- the mover --- */

static void survey_clear(void)
{
	free(s.found.kernel);
	free(s.found.use);
	free(s.found.given);
	free(s.measured);
	free(s.repeats);
	s.found = (struct survey){0};
	s.measured = NULL;
	s.repeats = NULL;
}

/* Has launches reported from now on, or no more until the next look. With the lock held. */
static void survey_look(bool looks)
{
	s.rests = !looks;
	ask(s.ordinal, looks, looks && s.asks_steps);
}

/* Begins a look at the launches that follow. With the lock held. */
static void survey_look_anew(uint64_t now)
{
	s.look = atomic_load_explicit(&looked.taken, memory_order_relaxed);
	s.look_ns = now;
	if (s.rests)
		survey_look(true);
}

/* Hands the values that are there to the repeats, in order. With the lock held. */
static void survey_read_looked(void)
{
	_Atomic uint64_t *values = late_of(&looked.values);
	uint64_t read = atomic_load_explicit(&looked.read, memory_order_relaxed), left;

	while ((left = atomic_load_explicit(&looked.taken, memory_order_relaxed) - read) > 0) {
		_Atomic uint64_t *place = &values[read % SURVEY_LOOK_ROOM];
		/* Pairs with the store of the launching thread in survey_note_looked(). */
		uint64_t value = atomic_exchange_explicit(place, 0, memory_order_acquire);

		if (!value && left < SURVEY_LOOK_ROOM)
			break;
		if (value && s.repeats && !repeats_take(s.repeats, value)) {
			free(s.repeats);
			s.repeats = NULL;
		}
		read++;
	}
	/* Pairs with the load of that thread: the place was emptied before. */
	atomic_store_explicit(&looked.read, read, memory_order_release);
}

bool survey_begin(int ordinal, bool has_steps, uint64_t now)
{
	bool is_begun = false;

	lock_acquire(&lock);
	if (state() == SURVEY_NONE) {
		s.found.kernel = calloc(SURVEY_LAUNCHES, sizeof(*s.found.kernel));
		s.found.use = calloc(SURVEY_USES, sizeof(*s.found.use));
		s.found.given = calloc(SURVEY_GIVEN, sizeof(*s.found.given));
		s.measured = calloc(SURVEY_LAUNCHES, sizeof(*s.measured));
		survey_read_looked(); /* those of an earlier survey; there are no repeats yet */
		s.repeats = has_steps ? calloc(1, sizeof(struct repeats)) : NULL;
		is_begun = s.found.kernel && s.found.use && s.found.given && s.measured &&
		           late_make(&looked.values, SURVEY_LOOK_ROOM * sizeof(_Atomic uint64_t));
		if (!is_begun)
			survey_clear();
	}
	if (is_begun) {
		s.number++;
		s.ordinal = ordinal;
		s.has_times = s.found.has_steps = true;
		s.steps = 0;
		s.read = s.launches = 0;
		s.tried = UINT64_MAX;
		s.began_ns = now;
		s.takes_steps = !s.repeats;
		s.until = now + (has_steps ? SURVEY_SEEKS_NS : 0);
		s.asks_steps = has_steps;
		s.rests = true;
		set_state(SURVEY_SOUGHT);
		survey_look_anew(now);
	}
	lock_release(&lock);
	return is_begun;
}

void survey_without_steps(uint64_t now, bool has_times)
{
	lock_acquire(&lock);
	if (state() == SURVEY_WITHOUT_STEPS) {
		s.has_times = has_times;
		s.found.has_steps = false;
		s.until = now + SURVEY_WHILE_NS;
		set_state(SURVEY_TAKEN);
		survey_look_anew(now);
	}
	lock_release(&lock);
}

/* Destroys the events, of which a context that goes takes care itself. */
static void destroy_events(struct measured *m)
{
	if (m->context && context_push(m->context) == CUDA_SUCCESS) {
		driver.cuEventDestroy_v2(m->begin);
		driver.cuEventDestroy_v2(m->end);
		context_pop(m->context);
	}
	m->context = NULL;
}

/* Reads the time between two events. As the driver answers: CUDA_ERROR_NOT_READY while it runs. */
static CUresult read_between(CUevent begin, CUevent end, uint64_t *ns)
{
	float ms = 0;
	CUresult result = driver.cuEventElapsedTime(&ms, begin, end);

	if (result == CUDA_SUCCESS && ms > 0)
		*ns = (uint64_t)((double)ms * 1e6);
	return result;
}

/* Reads when a launch began, and how long it took. Returns CUDA_ERROR_NOT_READY while it runs. */
static CUresult read_time(const struct measured *m, struct weigh_kernel *kernel)
{
	const struct measured *first = &s.measured[0];
	CUresult result = context_push(m->context);

	if (result != CUDA_SUCCESS)
		return result;
	result = read_between(m->begin, m->end, &kernel->ns);
	if (result == CUDA_SUCCESS && first->context == m->context)
		(void)read_between(first->begin, m->begin, &kernel->at_ns);
	context_pop(m->context);
	return result;
}

/*
 * Reads the times of finished launches. Returns whether all are. The first one's events stay to the
 * end.
 */
static bool read_times(void)
{
	for (; s.read < s.found.kernels; s.read++) {
		struct measured *m = &s.measured[s.read];

		if (m->context && m->is_ended &&
		    read_time(m, &s.found.kernel[s.read]) == CUDA_ERROR_NOT_READY)
			return false;
		if (s.read)
			destroy_events(m);
	}
	return true;
}

/*
 * Takes the faster time of a launch in both steps: other work of the machine only adds. Steps that
 * are not alike stay as they are.
 */
static void compare_steps(void)
{
	size_t half = s.found.kernels / 2;

	for (size_t i = 0; i < half; i++) {
		const struct weigh_kernel *a = &s.found.kernel[i], *b = &s.found.kernel[half + i];

		if (s.found.kernels % 2 || a->key != b->key || a->uses != b->uses)
			return;
	}
	for (size_t i = 0; i < half; i++) {
		uint64_t *a = &s.found.kernel[i].ns, *b = &s.found.kernel[half + i].ns;

		*a = *b = *a < *b ? *a : *b;
	}
}

/* Has launches taken where the program has come to repeat itself, and has done so for a while. */
static void try_repeats(uint64_t now)
{
	uint64_t since = UINT64_MAX;
	size_t period = s.repeats ? repeats_period(s.repeats, &since) : 0;

	/* Steps found by functions take no notice of memory, in which alone launches may differ. */
	s.takes_steps = !period && (!s.repeats || now - s.began_ns >= SURVEY_TRIES_NS);
	if (!period || since != s.tried) {
		s.tried = period ? since : UINT64_MAX;
		s.tried_ns = now;
	} else if (now - s.tried_ns >= SURVEY_TRIES_NS) {
		s.launches = SURVEY_STEPS * period;
		s.until = now + SURVEY_LASTS_NS;
		set_state(SURVEY_TAKEN);
	}
}

static void poll_with_lock(uint64_t now)
{
	bool is_over;

	/* The thread that ended the first step has no clock. */
	if (s.until == UINT64_MAX)
		s.until = now + SURVEY_LASTS_NS;
	is_over = now >= s.until;
	switch (state()) {
	case SURVEY_SOUGHT:
		survey_read_looked();
		if (is_over)
			set_state(SURVEY_WITHOUT_STEPS);
		else
			try_repeats(now);
		if (now - s.look_ns >= SURVEY_LOOK_NS)
			survey_look_anew(now);
		break;
	case SURVEY_TAKEN:
		if (is_over && s.found.has_steps)
			survey_fail("two steps take too long");
		else if (is_over) {
			/* With times those are still to be read. */
			s.until = now + SURVEY_LASTS_NS;
			set_state(s.has_times ? SURVEY_READ : SURVEY_DONE);
		}
		break;
	case SURVEY_READ:
		if (capture_is_active())
			break;
		if (read_times()) {
			if (s.found.has_steps)
				compare_steps();
			set_state(SURVEY_DONE);
		} else if (is_over) {
			survey_fail("its kernels do not end");
		}
		break;
	default:
		break;
	}
}

enum survey_state survey_poll(uint64_t now)
{
	enum survey_state now_in;

	lock_acquire(&lock);
	poll_with_lock(now);
	now_in = state();
	/* Launches that are not taken need not tell. */
	if (now_in == SURVEY_READ || now_in == SURVEY_DONE || now_in == SURVEY_FAILED)
		survey_look(false);
	lock_release(&lock);
	return now_in;
}

const struct survey *survey_found(void)
{
	return state() == SURVEY_DONE ? &s.found : NULL;
}

const char *survey_failure(void)
{
	return state() == SURVEY_FAILED ? s.failure : NULL;
}

void survey_end(void)
{
	lock_acquire(&lock);
	survey_look(false);
	for (size_t i = 0; i < s.found.kernels; i++)
		destroy_events(&s.measured[i]);
	survey_clear();
	set_state(SURVEY_NONE);
	lock_release(&lock);
}

/* --- the program's threads --- */

static bool survey_make_events(struct measured *m)
{
	if (driver.cuEventCreate(&m->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
		return false;
	if (driver.cuEventCreate(&m->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
		return true;
	driver.cuEventDestroy_v2(m->begin);
	return false;
}

/* Returns whether the launch is taken; it is the newest one then. With the lock held. */
static bool survey_take(CUcontext context, CUstream stream)
{
	struct measured m = {.context = context};

	if (s.found.kernels == SURVEY_LAUNCHES) {
		if (s.found.has_steps)
			survey_fail("two steps have too many launches");
		else /* so many tell enough; the next poll ends it */
			s.until = 0;
		return false;
	}
	if (s.has_times && !survey_make_events(&m)) {
		survey_fail("the driver makes no events");
		return false;
	}
	if (!s.has_times)
		m.context = NULL;
	else if (driver.cuEventRecord(m.begin, stream) != CUDA_SUCCESS) {
		destroy_events(&m);
		return false;
	}
	s.measured[s.found.kernels] = m;
	s.found.kernel[s.found.kernels] = (struct weigh_kernel){.first = (uint32_t)s.found.uses};
	s.found.kernels++;
	return true;
}

struct survey_mark survey_before(int ordinal, CUcontext context, CUstream stream)
{
	struct survey_mark mark = {0};
	int cancel;

	/* Captured work does not run; the graph made of it does, later. */
	if (s.ordinal != ordinal || capture_is_active())
		return mark;
	if (state() == SURVEY_SOUGHT)
		return (struct survey_mark){s.number, SURVEY_LAUNCHES};
	if (state() != SURVEY_TAKEN)
		return mark;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	lock_acquire(&lock);
	if (s.ordinal == ordinal && state() == SURVEY_TAKEN &&
	    (!s.launches || s.found.kernels < s.launches) && survey_take(context, stream))
		mark = (struct survey_mark){s.number, s.found.kernels - 1};
	lock_release(&lock);
	pthread_setcancelstate(cancel, NULL);
	return mark;
}

/* Reads the values that are there, and ends the look where it is full and nothing comes again. */
static void survey_rest(uint64_t number)
{
	lock_acquire(&lock);
	survey_read_looked();
	if (state() == SURVEY_SOUGHT && !s.rests && number - s.look >= SURVEY_LOOK &&
	    !(s.repeats && has_period(s.repeats)))
		survey_look(false);
	lock_release(&lock);
}

/* Notes a launch that is looked at. Takes the lock once in SURVEY_LOOK_ROOM / 2 launches. */
static void survey_note_looked(const struct survey_launch *launch)
{
	_Atomic uint64_t *values = late_of(&looked.values);
	uint64_t value = launch->key, number;

	if (!values)
		return;
	if (atomic_load_explicit(&s.repeats, memory_order_relaxed) && !launch->is_blind)
		value ^= heat_value_of_uses(launch->graph, launch->function, launch->parameters,
		                            launch->extra);
	number = atomic_fetch_add_explicit(&looked.taken, 1, memory_order_relaxed);
	if (number % (SURVEY_LOOK_ROOM / 2) == 0 ||
	    number - atomic_load_explicit(&looked.read, memory_order_acquire) >= SURVEY_LOOK_ROOM)
		survey_rest(number);
	/* Pairs with the exchange in survey_read_looked(). */
	atomic_store_explicit(&values[number % SURVEY_LOOK_ROOM], value | 1, memory_order_release);
}

/* Notes the addresses that the launch's kernels were given, for the record. With the lock held. */
static void note_given(size_t number)
{
	CUdeviceptr *to = s.found.given + s.found.givens;
	size_t room = SURVEY_GIVEN - s.found.givens, count;

	count = room > 2 ? heat_given(to + 1, room - 2) : 0;
	if (!count)
		return;
	to[0] = number;
	to[count + 1] = SURVEY_GIVEN_END;
	s.found.givens += count + 2;
}

/* Notes which runs the launch uses, behind the known ones. With the lock held. */
static void note_uses(struct weigh_kernel *kernel, const struct survey_launch *launch)
{
	int uses = -1;

	if (!launch->is_blind)
		uses =
		    heat_uses_of(launch->graph, launch->function, launch->parameters, launch->extra,
		                 s.found.use + s.found.uses, SURVEY_USES - s.found.uses);
	if (uses < 0) {
		survey_fail("the memory that some of its kernels use is not known");
		return;
	}
	kernel->key = launch->key;
	kernel->first = (uint32_t)s.found.uses;
	kernel->uses = (uint32_t)uses;
	s.found.uses += (size_t)uses;
	note_given((size_t)(kernel - s.found.kernel));
}

/* With the lock held. */
static void end_taken(size_t number, const struct survey_launch *launch)
{
	struct measured *m = &s.measured[number];

	if (m->context && launch->is_launched)
		m->is_ended = driver.cuEventRecord(m->end, launch->stream) == CUDA_SUCCESS;
	if (launch->is_launched)
		note_uses(&s.found.kernel[number], launch);
	if (number + 1 == s.launches && state() == SURVEY_TAKEN)
		set_state(SURVEY_READ);
}

void survey_after(const struct survey_mark *mark, const struct survey_launch *launch)
{
	if (s.number != mark->survey)
		return; /* 0, or it comes late */
	if (mark->launch == SURVEY_LAUNCHES) {
		if (state() == SURVEY_SOUGHT && launch->is_launched)
			survey_note_looked(launch);
		return;
	}
	lock_acquire(&lock);
	if (s.number == mark->survey && (state() == SURVEY_TAKEN || state() == SURVEY_READ))
		end_taken(mark->launch, launch);
	lock_release(&lock);
}

void survey_step_ended(int ordinal)
{
	if (state() != SURVEY_SOUGHT && state() != SURVEY_TAKEN)
		return;
	lock_acquire(&lock);
	if (s.ordinal != ordinal || !s.found.has_steps) {
		/* It is another device's, or about a while. */
	} else if (state() == SURVEY_SOUGHT && s.takes_steps && !s.rests) {
		s.until = UINT64_MAX;
		set_state(SURVEY_TAKEN);
	} else if (state() == SURVEY_TAKEN && !s.launches && ++s.steps == SURVEY_STEPS) {
		set_state(SURVEY_READ);
	}
	lock_release(&lock);
}

void survey_leave_context(CUcontext context)
{
	lock_acquire(&lock);
	for (size_t i = 0; i < s.found.kernels; i++) {
		if (s.measured[i].context != context)
			continue;
		s.measured[i].context = NULL;
		survey_fail("a context of its kernels was destroyed");
	}
	lock_release(&lock);
}

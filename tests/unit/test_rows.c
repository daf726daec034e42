/* SPDX-License-Identifier: MIT */
/*
 * Every row of the table of entry points, one by one, against a driver that writes down how it was
 * called:
 *
 * - with any hook the driver gets the program's arguments and the program gets the driver's
 *   error, before the job is active and while it is;
 * - the rows marked `pace` or `gate` do not reach the driver while the gate is closed, and do once
 *   it opens;
 * - every row that is not marked `passthrough` has a hook;
 * - those that return when the device has done what was asked tell the mover, when they succeeded
 *   and it waits.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/job/job.h"
#include "core/memory/move/idle_point.h"
#include "tests/unit/call.h"
#include "tests/unit/recorder.h"
#include "tests/unit/test_driver.h"

enum { ANSWER = CUDA_ERROR_UNKNOWN, STILL_MS = 300 };

struct row {
	const char *symbol, *class, *action;
	const char *parameters; /* signatures.h; NULL: not declared by cuda.h */
};

static struct row rows[ENTRY_COUNT] = {
#define FUNCTION(symbol, class, action) [ENTRY_##symbol] = {#symbol, #class, #action, NULL},
#define OBJECT(symbol, bytes)
#include "shim/entry_points.h"
#undef FUNCTION
#undef OBJECT
};

static struct recorder *recorder;
static int failures;

#define FAIL(...) (printf(__VA_ARGS__), putchar('\n'), failures++)

static bool is_hooked(int entry)
{
	return shim_target[entry] != shim_real[entry];
}

static bool has_action(int entry, const char *action)
{
	return strstr(rows[entry].action, action) != NULL;
}

/* --- the checks --- */

static bool is_one_of(int entry, const enum entry *entries, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (entries[i] == (enum entry)entry)
			return true;
	}
	return false;
}

/* Succeeds here: the job begins with it. */
static const enum entry not_asked[] = {ENTRY_cuInit};

/*
 * Parameters that the driver does not get as the program gave them while the job is active: a bit
 * each.
 */
static unsigned int own_parameters(int entry)
{
	switch ((enum entry)entry) {
	case ENTRY_cuMemAlloc_v2: /* the program gets the address once it is in the books */
	case ENTRY_cuMemAllocAsync:
	case ENTRY_cuMemAllocAsync_ptsz:
	case ENTRY_cuMemAllocFromPoolAsync:
	case ENTRY_cuMemAllocFromPoolAsync_ptsz:
		return 1u << 0;
	case ENTRY_cuUserObjectCreate: /* its destructor tells that it ended */
		return 1u << 1 | 1u << 2;
	default:
		return 0;
	}
}

#define IS_ONE_OF(entry, entries) is_one_of(entry, entries, sizeof(entries) / sizeof(*(entries)))

static void forwards(int entry, const char *when)
{
	const struct row *row = &rows[entry];
	const struct record *record = &recorder->row[entry];
	unsigned int before = atomic_load(&record->calls);
	struct call call;
	CUresult expected, result;

	if (!row->parameters) {
		FAIL("%s: hooked, but signatures.h does not have it", row->symbol);
		return;
	}
	if (!lay_out(&call, row->parameters)) {
		FAIL("%s: parameters '%s' are not understood", row->symbol, row->parameters);
		free(call.buffers);
		return;
	}
	expected = make(shim_real[entry], call.words);
	result = make(shim_target[entry], call.words);
	if (atomic_load(&record->calls) < before + 2)
		FAIL("%s (%s): the driver was not called", row->symbol, when);
	for (int i = 0; i < RECORDER_WORDS; i++) {
		if (own_parameters(entry) & 1u << i)
			continue;
		if ((record->words[i] ^ call.words[i]) & call.mask[i])
			FAIL("%s (%s): word %d: the driver got %#llx, the program gave %#llx",
			     row->symbol, when, i, (unsigned long long)record->words[i],
			     (unsigned long long)call.words[i]);
	}
	if (result != expected)
		FAIL("%s (%s): the program got %d, the driver answered %d", row->symbol, when,
		     result, expected);
	free(call.buffers);
}

static int check_forwarding(const char *when)
{
	int count = 0;

	for (int i = 0; i < ENTRY_COUNT; i++) {
		if (is_hooked(i) && !IS_ONE_OF(i, not_asked)) {
			forwards(i, when);
			count++;
		}
	}
	return count;
}

static void check_coverage(void)
{
	for (int i = 0; i < ENTRY_COUNT; i++) {
		if (!is_hooked(i) && strcmp(rows[i].action, "passthrough") != 0)
			FAIL("%s (%s): marked %s, but nothing is hooked", rows[i].symbol,
			     rows[i].class, rows[i].action);
	}
}

struct passage {
	int entry;
	pthread_t thread;
	struct call call;
};
static _Atomic int arrived;

static void *pass(void *cookie)
{
	struct passage *p = cookie;

	atomic_fetch_add(&arrived, 1);
	make(shim_target[p->entry], p->call.words);
	return NULL;
}

static int check_gate(void)
{
	static struct passage passages[ENTRY_COUNT];
	const struct timespec pause = {0, 1000000};
	int count = 0;

	gate_start(); /* the mover does, before it closes the gate */
	if (!gate_hold(10000000000u, UINT64_MAX) || !gate_seize()) {
		FAIL("the gate does not close");
		return 0;
	}
	for (int i = 0; i < ENTRY_COUNT; i++) {
		struct passage *p = &passages[count];

		if (!is_hooked(i) || (!has_action(i, "pace") && !has_action(i, "gate")))
			continue;
		p->entry = i;
		lay_out(&p->call, rows[i].parameters);
		atomic_store(&recorder->row[i].calls, 0);
		if (pthread_create(&p->thread, NULL, pass, p) != 0)
			FAIL("%s: no thread", rows[i].symbol);
		else
			count++;
	}
	while (atomic_load(&arrived) < count)
		nanosleep(&pause, NULL);
	for (int i = 0; i < STILL_MS; i++)
		nanosleep(&pause, NULL);
	for (int i = 0; i < count; i++) {
		if (atomic_load(&recorder->row[passages[i].entry].calls) != 0)
			FAIL("%s: reached the driver through the closed gate",
			     rows[passages[i].entry].symbol);
	}
	gate_open();
	for (int i = 0; i < count; i++) {
		pthread_join(passages[i].thread, NULL);
		free(passages[i].call.buffers);
		if (atomic_load(&recorder->row[passages[i].entry].calls) != 1)
			FAIL("%s: called once, the driver was called %u times",
			     rows[passages[i].entry].symbol,
			     atomic_load(&recorder->row[passages[i].entry].calls));
	}
	return count;
}

/* --- natural moments --- */

static const enum entry waits[] = {
    ENTRY_cuCtxSynchronize,
    ENTRY_cuCtxSynchronize_v2,
    ENTRY_cuEventSynchronize,
    ENTRY_cuMemcpy,
    ENTRY_cuMemcpyDtoD_v2,
    ENTRY_cuMemcpyDtoD_v2_ptds,
    ENTRY_cuMemcpyDtoH_v2,
    ENTRY_cuMemcpyDtoH_v2_ptds,
    ENTRY_cuMemcpyHtoD_v2,
    ENTRY_cuMemcpyHtoD_v2_ptds,
    ENTRY_cuMemcpy_ptds,
    ENTRY_cuStreamSynchronize,
    ENTRY_cuStreamSynchronize_ptsz,
};
static unsigned int moments;
static uint32_t inside_at_moment;

void __wrap_idle_point_tell(void); /* the linker's name for it */
void __wrap_idle_point_tell(void)
{
	moments++;
	inside_at_moment += atomic_load(&gate_thread->inside);
}

static unsigned int moments_of(enum entry entry, int answer)
{
	struct call call;

	moments = 0;
	lay_out(&call, rows[entry].parameters);
	atomic_store(&recorder->answer, answer);
	make(shim_target[entry], call.words);
	atomic_store(&recorder->answer, ANSWER);
	free(call.buffers);
	return moments;
}

static void check_moments(void)
{
	gate_enter(); /* takes a number */
	gate_leave();
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
		const char *symbol = rows[waits[i]].symbol;

		if (moments_of(waits[i], CUDA_SUCCESS) != 0)
			FAIL("%s: a natural moment, and nobody waits for one", symbol);
		atomic_store(&idle_point_is_awaited, 1);
		if (moments_of(waits[i], CUDA_SUCCESS) != 1)
			FAIL("%s: no natural moment", symbol);
		if (moments_of(waits[i], ANSWER) != 0)
			FAIL("%s: failed, and was a natural moment", symbol);
		atomic_store(&idle_point_is_awaited, 0);
	}
	if (inside_at_moment)
		FAIL("natural moments came inside the gate");
}

int main(void)
{
	int inactive, active, gated;

#define SIGNATURE(symbol, letters) rows[ENTRY_##symbol].parameters = letters;
#include "tests/unit/signatures.h"
#undef SIGNATURE
	recorder = test_driver_open("recorder", "rows");
	if (!recorder)
		return EXIT_FAILURE;
	shim_attach(NULL, &shim_trampolines);
	shim_inside[1].size = 0; /* this program's code and the shim's are one */
	atomic_store(&recorder->answer, ANSWER);

	inactive = check_forwarding("before cuInit");
	if (make(shim_target[ENTRY_cuInit], (const uint64_t[RECORDER_WORDS]){0}) != CUDA_SUCCESS ||
	    !job_is_active())
		FAIL("the job did not begin");
	active = check_forwarding("active");
	gated = check_gate();
	check_coverage();
	check_moments();
	if (inactive < 200 || gated < 210)
		FAIL("only %d hooks, %d of them with a gate, were looked at", inactive, gated);
	printf("%d hooks forward before cuInit, %d while the job is active, %d wait at the gate; "
	       "%d failures\n",
	       inactive, active, gated, failures);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

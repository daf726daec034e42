/* SPDX-License-Identifier: MIT */
/*
 * Calls of memory management beside running work: which of them wait for it, and do launches of
 * other threads wait then?
 */
#include "tests/gpu/questions/question.h"

#include "tests/clients/program.h"

#include <pthread.h>
#include <unistd.h>

enum form { UNMAP, CREATE, GETINFO, RELEASE };

static void make_call(enum form form, struct range *range)
{
	CUmemAllocationProp properties = range_properties('h');
	CUmemGenericAllocationHandle handle = 0;
	size_t available, total;

	switch (form) {
	case UNMAP:
		ATTEMPT(cuMemUnmap(range->base, small_chunk));
		break;
	case CREATE:
		ATTEMPT(cuMemCreate(&handle, short_form ? small_chunk : (size_t)32 << 20,
		                    &properties, 0));
		break;
	case GETINFO:
		ATTEMPT(cuMemGetInfo(&available, &total));
		break;
	case RELEASE:
		ATTEMPT(cuMemRelease(range->handles[0]));
		break;
	}
}

static void ask_call(const struct question *q)
{
	struct range range;

	range_make(&range, q->kinds, small_chunk);
	if (q->form == RELEASE) /* what nothing maps any more goes with its handle */
		ATTEMPT(cuMemUnmap(range.base, small_chunk));
	busy_begin(stream);
	if (not_asked(q))
		return;
	double start = program_now_ms();
	make_call((enum form)q->form, &range);
	double took = program_now_ms() - start;
	if (refused(q))
		return;
	busy_end(stream);
	answer(q->name, took > WAITED_MS ? "waits" : "returns",
	       "%.1f ms beside %d ms of work, then %s", took, BUSY_MS,
	       gpu_error_name(attempt.result));
}

static void *unmap(void *cookie)
{
	struct range *range = cookie;

	gpu.cuCtxSetCurrent(context);
	gpu.cuMemUnmap(range->base, small_chunk);
	return NULL;
}

static void ask_launches(const struct question *q)
{
	struct range range;
	pthread_t thread;
	CUstream other = NULL;
	double worst = 0;

	range_make(&range, "d", small_chunk);
	ATTEMPT(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	launch(KERNELS, "nothing", 1, 1, other, NULL); /* loads it */
	busy_begin(stream);
	if (not_asked(q))
		return;
	if (pthread_create(&thread, NULL, unmap, &range) != 0)
		program_die("pthread_create failed");
	usleep(5000);
	for (int i = 0; i < 200; i++) {
		double start = program_now_ms();
		launch(KERNELS, "nothing", 1, 1, other, NULL);
		double took = program_now_ms() - start;
		if (took > worst)
			worst = took;
		usleep(200);
	}
	pthread_join(thread, NULL);
	busy_end(stream);
	if (!refused(q))
		answer(q->name, worst > WAITED_MS / 2.0 ? "wait" : "go on", "worst of 200: %.3f ms",
		       worst);
}

#define UNMAP_THEN "a move's scratch mappings and spare chunks are unmapped while the program works"
#define UNMAP_ELSE \
	"keep scratch mapped and map over it, or unmap within the copy window's last moment"

const struct question wait_questions[] = {
    {.name = "unmap_beside_work",
     .risk = "13",
     .asks = "Does cuMemUnmap of device memory wait for work that does not use it?",
     .counted_on = "returns",
     .then = UNMAP_THEN,
     .otherwise = UNMAP_ELSE,
     .ask = ask_call,
     .kinds = "d",
     .form = UNMAP},
    {.name = "unmap_spilled_beside_work",
     .risk = "13",
     .asks = "And of spilled memory?",
     .counted_on = "returns",
     .then = UNMAP_THEN,
     .otherwise = UNMAP_ELSE,
     .ask = ask_call,
     .kinds = "h",
     .form = UNMAP},
    {.name = "release_beside_work",
     .risk = "13",
     .asks = "Does cuMemRelease of unmapped device memory wait for work?",
     .counted_on = "returns",
     .then = "spare chunks are released while the program works",
     .otherwise = "release spares when nothing runs",
     .ask = ask_call,
     .kinds = "d",
     .form = RELEASE},
    {.name = "create_host_beside_work",
     .risk = "13",
     .asks = "Does cuMemCreate of memory of the host wait for work?",
     .counted_on = "returns",
     .then = "chunks of the host are made ahead, while the program works",
     .otherwise = "make them when nothing runs, and keep them",
     .ask = ask_call,
     .kinds = "h",
     .form = CREATE},
    {.name = "getinfo_beside_work",
     .risk = "14",
     .asks = "Does cuMemGetInfo wait for work?",
     .counted_on = "returns",
     .then = "it is asked whenever something may have grown",
     .otherwise = "ask NVML, or when nothing runs",
     .ask = ask_call,
     .kinds = "d",
     .form = GETINFO},
    {.name = "launches_beside_unmap",
     .risk = "13",
     .asks = "Do launches of other threads wait while cuMemUnmap runs beside work?",
     .counted_on = "go on",
     .then = UNMAP_THEN,
     .otherwise = UNMAP_ELSE,
     .ask = ask_launches},
    {0},
};

/* Memory that moves. */
#include "tools/moving.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/units.h"
#include "tools/jobs.h"
#include "tools/report_moves.h"
#include "tools/tool.h"

enum { PROGRESS = 20 }; /* characters of a bar */

static bool moves(const struct segment_process *process, int device)
{
	const struct statistics *s = &process->device[device];

	return process->state == SLOT_LIVE && s->elastic == ELASTIC_YES &&
	       s->held_reason == HELD_PENDING;
}

static uint64_t beyond(const struct segment_view *view, int device)
{
	const struct statistics *total = &view->job_total[device];
	uint64_t charged = view->charged[device][SEGMENT_ON_DEVICE];
	uint64_t limit = total->evicted ? 0 : total->limit_set;

	return charged > limit ? charged - limit : 0;
}

/* A process whose memory is still on its way; NULL: none. */
static const struct segment_process *moving(const struct segment_view *view, int device)
{
	if (!beyond(view, device))
		return NULL;
	for (int i = 0; i < view->process_count; i++)
		if (moves(&view->process[i], device))
			return &view->process[i];
	return NULL;
}

bool moving_goes_on(const struct segment_view *view)
{
	for (int i = 0; i < view->device_count; i++)
		if (moving(view, i))
			return true;
	return false;
}

uint64_t moving_bytes(const struct segment_view *view)
{
	uint64_t bytes = 0;

	for (int i = 0; i < view->device_count; i++)
		bytes += view->job_total[i].demoted_bytes;
	return bytes;
}

static bool has_room(const struct segment_view *view, int device)
{
	for (int i = 0; i < view->process_count; i++)
		if (view->process[i].device[device].move_pending == MOVE_DEVICE_FULL)
			return false;
	return view->charged[device][SEGMENT_ON_DEVICE] < view->job_total[device].limit_set;
}

/* Bytes on the host that have room on the device. */
static uint64_t coming_back(const struct segment_view *view, int device)
{
	const struct statistics *total = &view->job_total[device];
	uint64_t room = total->limit_set - view->charged[device][SEGMENT_ON_DEVICE];
	uint64_t bytes = view->charged[device][SEGMENT_ON_HOST];

	if (total->elastic != ELASTIC_YES || !has_room(view, device))
		return 0;
	return bytes < room ? bytes : room;
}

bool moving_back_goes_on(const struct segment_view *view)
{
	for (int i = 0; i < view->device_count; i++)
		if (coming_back(view, i))
			return true;
	return false;
}

uint64_t moving_back_bytes(const struct segment_view *view)
{
	uint64_t bytes = 0;

	for (int i = 0; i < view->device_count; i++)
		bytes += view->job_total[i].promoted_bytes;
	return bytes;
}

/* "[#####...............]": how much of what there was to move has been. */
static const char *progress(uint64_t left, uint64_t all, char bar[PROGRESS + 3])
{
	int done = all > left ? (int)((double)(all - left) / (double)all * PROGRESS) : 0;

	for (int i = 0; i < PROGRESS; i++)
		bar[i + 1] = i < done ? '#' : '.';
	bar[0] = '[';
	strcpy(bar + PROGRESS + 1, "]");
	return bar;
}

/* The first device whose memory goes there, with a process that may say why it waits and the bytes that are left; -1: none. */
static int leaving(const struct segment_view *view, const struct segment_process **process,
                   uint64_t *left)
{
	for (int i = 0; i < view->device_count; i++) {
		*process = moving(view, i);
		*left = beyond(view, i);
		if (*process)
			return i;
	}
	return -1;
}

static int returning(const struct segment_view *view, const struct segment_process **process,
                     uint64_t *left)
{
	*process = NULL;
	for (int i = 0; i < view->device_count; i++) {
		*left = coming_back(view, i);
		if (*left)
			return i;
	}
	return -1;
}

/* most: per device, the most that was left so far. */
static void show(const struct segment_view *view, const char *what, uint64_t *most,
                 int (*next)(const struct segment_view *view,
                             const struct segment_process **process, uint64_t *left))
{
	static bool stands;
	const struct segment_process *process;
	uint64_t left;
	int device = view && isatty(STDERR_FILENO) ? next(view, &process, &left) : -1;

	if (stands)
		fprintf(stderr, "\r\033[K");
	stands = device >= 0;
	if (stands) {
		char size[32], bar[PROGRESS + 3];

		if (left > most[device])
			most[device] = left;
		fprintf(stderr, "gpu %d: %s still to be moved%s %s", device,
		        units_format_size(left, size, sizeof size), what,
		        progress(left, most[device], bar));
		if (process && process->device[device].move_pending > MOVE_SOON)
			fprintf(stderr, ": %s", report_pending(&process->device[device]));
	}
	fflush(stderr);
}

void moving_show(const struct segment_view *view)
{
	static uint64_t most[SEGMENT_DEVICES];

	show(view, "", most, leaving);
}

void moving_back_show(const struct segment_view *view)
{
	static uint64_t most[SEGMENT_DEVICES];

	show(view, " back", most, returning);
}

/* What keeps memory on a GPU although it is to leave, in order of what matters. */
enum staying { STAYS_FOREIGN, STAYS_PINNED, STAYS_INELASTIC, STAYS_HOST_FULL, STAYS_FOR_NOW };

struct stay {
	enum staying staying;
	const struct statistics *statistics; /* of the process that says so */
};

static enum staying staying_of(const struct segment_process *process, int device)
{
	const struct statistics *s = &process->device[device];

	if (moves(process, device))
		return STAYS_FOR_NOW;
	if (s->held_reason == HELD_HOST_FULL)
		return STAYS_HOST_FULL;
	if (s->elastic != ELASTIC_YES && s->allocations)
		return STAYS_INELASTIC;
	return s->held_reason == HELD_PINNED ? STAYS_PINNED : STAYS_FOREIGN;
}

static struct stay gravest(const struct segment_view *view, int device)
{
	struct stay stay = {STAYS_FOREIGN, NULL};

	for (int i = 0; i < view->process_count; i++) {
		const struct segment_process *process = &view->process[i];
		enum staying staying;

		if (process->state != SLOT_LIVE)
			continue;
		staying = staying_of(process, device);
		if (!stay.statistics || staying > stay.staying)
			stay = (struct stay){staying, &process->device[device]};
	}
	return stay;
}

static bool report_device(const struct segment_view *view, int device)
{
	struct stay stay = gravest(view, device);
	char on_host[32], on_device[32];

	if (!view->job_total[device].evicted) {
		complain("gpu %d: job '%s' was resumed meanwhile", device, view->job);
		return false;
	}
	units_format_size(view->charged[device][SEGMENT_ON_HOST], on_host, sizeof on_host);
	units_format_size(view->charged[device][SEGMENT_ON_DEVICE], on_device, sizeof on_device);
	printf("gpu %d: evicted, %s on the host, %s on the GPU", device, on_host, on_device);
	if (!stay.statistics || stay.staying <= STAYS_PINNED) {
		if (view->charged[device][SEGMENT_ON_DEVICE])
			printf(" (%s)", stay.staying == STAYS_PINNED
			                    ? report_held_meaning(HELD_PINNED)
			                    : report_held_meaning(HELD_FOREIGN));
		printf("\n");
		return true;
	}
	printf("\n");
	complain("gpu %d: %s of job '%s' stay on the GPU: %s%s", device, on_device, view->job,
	         stay.staying == STAYS_FOR_NOW ? "not moved in time: " : "",
	         stay.staying == STAYS_HOST_FULL ? report_held_meaning(HELD_HOST_FULL)
	         : stay.staying == STAYS_FOR_NOW ? report_pending(stay.statistics)
	                                         : report_inelastic(view, device, stay.statistics));
	return false;
}

bool moving_report_eviction(const struct segment_view *view)
{
	bool done = true;

	if (!jobs_live_process(view)) {
		complain("job '%s' has ended", view->job);
		return false;
	}
	for (int i = 0; i < view->device_count; i++)
		done &= !jobs_gpu_is_used(view, i) || report_device(view, i);
	return done;
}

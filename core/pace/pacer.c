/* The pacer. Rules: runs inside the user's process, on its launch path when paced. */
#include "core/pace/pacer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "core/device.h"
#include "core/pace/account.h"
#include "core/pace/busy.h"
#include "core/pace/capture.h"

/* How long to nap between two looks at work in flight. */
#define NAP_NS 50000ull
/* How often a paused launch counts the time it waited. */
#define PAUSE_TICK_NS 100000000ull

struct pacer {
	struct device *device;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* the share */
	_Atomic uint32_t share;
	uint64_t window_ns;
	struct account account;
	struct busy *busy;
	uint64_t launch_ns;  /* what a launch cost lately; 0: not known yet */
	uint64_t longest_ns; /* the longest round lately */
	uint64_t
	    idle_until; /* idle time is counted up to here: threads that wait together wait once */
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct pacer *pacer_create(struct device *device)
{
	struct pacer *p = calloc(1, sizeof(*p));
	pthread_condattr_t monotonic;

	if (!p)
		return NULL;
	p->busy = busy_create();
	if (!p->busy) {
		free(p);
		return NULL;
	}
	p->device = device;
	p->share = ACCOUNT_FULL_SHARE;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return p;
}

void pacer_set(struct pacer *p, uint32_t share, uint64_t window_ns)
{
	pthread_mutex_lock(&p->lock);
	if (share != p->share) {
		/* What was owed or saved under another share is not carried over. */
		p->account = (struct account){0};
	}
	p->share = share;
	p->window_ns = window_ns;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

bool pacer_is_pacing(const struct pacer *p)
{
	return p->share < ACCOUNT_FULL_SHARE;
}

/* Sleeps with the lock released; wakes early when the share changes. */
static void sleep_until(struct pacer *p, uint64_t deadline_ns)
{
	struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
	                            .tv_nsec = (long)(deadline_ns % 1000000000u)};

	pthread_cond_timedwait(&p->changed, &p->lock, &deadline);
}

static void note_idle(struct pacer *p, uint64_t began)
{
	uint64_t now = now_ns();

	if (began > p->idle_until)
		statistics_add(&p->device->statistics->idle_slots, 1);
	else
		began = p->idle_until;
	if (now > began)
		statistics_add(&p->device->statistics->idle_ns, now - began);
	p->idle_until = now;
}

static void wait_while_paused(struct pacer *p)
{
	statistics_set(&p->device->statistics->paused, 1);
	while (p->share == 0) {
		uint64_t began = now_ns();

		sleep_until(p, began + PAUSE_TICK_NS); /* now and then, so that stat sees it grow */
		note_idle(p, began);
	}
	statistics_set(&p->device->statistics->paused, 0);
}

/* Follows up quickly, falls off slowly. */
static uint64_t recent_longest(uint64_t before, uint64_t now)
{
	return now > before ? now : before - (before - now) / 16;
}

/* Charges finished rounds. Whether any is still running. */
static bool settle(struct pacer *p)
{
	struct busy_sum sum;
	bool running = busy_collect(p->busy, &sum);

	if (sum.launches) {
		uint64_t cost = sum.busy_ns / sum.launches;

		statistics_add(&p->device->statistics->busy_ns, sum.busy_ns);
		account_pay(&p->account, sum.busy_ns);
		p->launch_ns = p->launch_ns ? (3 * p->launch_ns + cost) / 4 : cost;
		p->longest_ns = recent_longest(p->longest_ns, sum.longest_ns);
	}
	account_gain(&p->account, now_ns(), p->share, p->window_ns);
	return running;
}

static uint64_t patience(const struct pacer *p)
{
	uint64_t twice = 2 * p->longest_ns;

	return twice < PACER_PATIENCE_MIN_NS   ? PACER_PATIENCE_MIN_NS
	       : twice > PACER_PATIENCE_MAX_NS ? PACER_PATIENCE_MAX_NS
	                                       : twice;
}

/* Waits for what is in flight, but only so long. */
static void wait_for_rounds(struct pacer *p)
{
	uint64_t deadline = now_ns() + patience(p);

	while (settle(p) && now_ns() < deadline && p->share && !capture_is_active())
		sleep_until(p, now_ns() + NAP_NS);
}

/* Is what was launched since the round began a quantum's work? Unknown cost counts as one. */
static bool round_is_due(const struct pacer *p)
{
	uint64_t began = busy_round_began(p->busy), launches = busy_round_launches(p->busy);

	if (!began)
		return false;
	return !p->launch_ns || launches * p->launch_ns >= PACER_QUANTUM_NS ||
	       now_ns() - began >= PACER_QUANTUM_NS || busy_is_full(p->busy);
}

static void insert_slot(struct pacer *p)
{
	/* A changed share ends the wait; the account says anew what is owed. */
	while (p->share && !capture_is_active()) {
		uint64_t began = now_ns();
		uint64_t slot = account_slot(&p->account, p->share);

		if (!slot)
			break;
		sleep_until(p, began + slot);
		note_idle(p, began);
		account_gain(&p->account, now_ns(), p->share, p->window_ns);
	}
}

void pacer_before(struct pacer *p, CUcontext context, CUstream stream)
{
	if (capture_is_active())
		return;
	pthread_mutex_lock(&p->lock);
	do {
		if (p->share == 0)
			wait_while_paused(p);
		if (round_is_due(p))
			busy_close_round(p->busy);
		if (settle(p))
			wait_for_rounds(p);
		insert_slot(p);
	} while (p->share == 0);
	if (!capture_is_active())
		busy_before(p->busy, context, stream, now_ns());
	pthread_mutex_unlock(&p->lock);
}

void pacer_after(struct pacer *p, CUcontext context, CUstream stream)
{
	if (capture_is_active())
		return;
	pthread_mutex_lock(&p->lock);
	busy_after(p->busy, context, stream);
	pthread_mutex_unlock(&p->lock);
}

void pacer_forget_context(struct pacer *p, CUcontext context, bool alive)
{
	pthread_mutex_lock(&p->lock);
	busy_forget_context(p->busy, context, alive);
	pthread_mutex_unlock(&p->lock);
}

void pacer_forget_stream(struct pacer *p, CUstream stream)
{
	pthread_mutex_lock(&p->lock);
	busy_forget_stream(p->busy, stream);
	pthread_mutex_unlock(&p->lock);
}

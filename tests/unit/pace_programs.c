/* SPDX-License-Identifier: MIT */
/* Programs of the world. */
#include "tests/unit/pace_programs.h"

enum { STREAMS_MOST = 16 };

static const uint64_t mix[3] = {50 * US, 1 * MS, 50 * MS};

static uint64_t length_of_next(struct program *p, uint64_t *key)
{
	uint64_t ns = p->kernel_ns, *random = &world.running->random;
	int i;

	*key = 1 + ns;
	switch (p->lengths) {
	case LENGTHS_MIX:
		i = (int)(random_next(random) % 3);
		ns = mix[i];
		*key = 1 + ns;
		break;
	case LENGTHS_CHANGE:
		i = (int)((world.now / (300 * MS)) % 3);
		ns = i == 0 ? ns / 20 : i == 1 ? ns : ns * 10;
		break;
	default:
		break;
	}
	if (p->jitter > 0)
		ns = random_between(random, (uint64_t)((double)ns * (1 - p->jitter)),
		                    (uint64_t)((double)ns * (1 + p->jitter)));
	return ns;
}

static CUstream stream_for(const struct program *p, CUstream *stream)
{
	if (p->is_per_thread)
		return CU_STREAM_PER_THREAD;
	return p->streams ? stream[p->launches % (uint64_t)p->streams] : NULL;
}

static bool is_over(const struct program *p)
{
	return (p->until && world.now >= p->until) ||
	       (p->most_launches && p->launches >= p->most_launches);
}

/* One stream waits for what the other has been given. */
static void join(CUevent event, CUstream before, CUstream after)
{
	call_record(event, before);
	call_stream_wait(after, event);
}

static void launch(struct program *p, CUstream *stream)
{
	struct item kernel = {.work = &p->work_ns};
	uint64_t key;

	kernel.left_ns = length_of_next(p, &key);
	if (p->spin && p->launches % p->spin_every == p->spin_every - 1) {
		kernel.spin = p->spin;
		kernel.step = p->launches / p->spin_every;
		key++;
	}
	if (kernel.spin && p->spins_aside) {
		join(p->event, stream[0], stream[1]);
		call_launch(stream[1], &kernel, key);
		join(p->event, stream[1], stream[0]);
	} else {
		call_launch(stream_for(p, stream), &kernel, key);
	}
	p->launches++;
}

static void leave_process(const struct program *p)
{
	for (int i = 1; i < world.threads; i++) {
		struct thread *t = &world.thread[i];

		if (t != world.running && t->process == p->process && !t->ended &&
		    t->body == world.running->body)
			return;
	}
	process_exit(p->process);
}

static void pause_for(const struct program *p)
{
	uint64_t *random = &world.running->random;

	thread_sleep_until(world.now + (p->pause_varies ? random_between(random, 0, 2 * p->pause_ns)
	                                                : p->pause_ns));
}

static void run(void *argument)
{
	struct program *p = argument;
	CUstream stream[STREAMS_MOST] = {NULL};

	uint64_t batch_at = world.now;

	p->began_at = world.now;
	call_use(p->gpu);
	for (int i = 0; i < p->streams; i++)
		driver.cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING);
	if (p->spins_aside) {
		driver.cuStreamCreate(&stream[1], CU_STREAM_NON_BLOCKING);
		driver.cuEventCreate(&p->event, CU_EVENT_DISABLE_TIMING);
	}
	while (!is_over(p)) {
		if (p->also_gpu)
			call_use(p->launches % 2 ? p->also_gpu : p->gpu);
		launch(p, stream);
		if (p->host_ns)
			thread_work(random_between(&world.running->random, 0, 2 * p->host_ns));
		if (p->batch && p->launches % (uint64_t)p->batch == 0) {
			if (p->waits)
				call_synchronize();
			if (p->batches < p->batches_most)
				p->batch_took_ns[p->batches++] = world.now - batch_at;
			if (p->pause_ns)
				pause_for(p);
			batch_at = world.now;
		}
	}
	call_synchronize();
	if (p->also_gpu) {
		call_use(p->gpu);
		call_synchronize();
	}
	p->ended_at = world.now;
	leave_process(p);
}

void program_start(struct program *p)
{
	thread_begin(p->process, p->name, run, p);
}

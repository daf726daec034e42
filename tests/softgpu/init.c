/* SPDX-License-Identifier: MIT */
/* cuInit, and the door every entry point goes through. */
#include "tests/softgpu/driver.h"

#include "tests/softgpu/capture.h"
#include "tests/softgpu/machine.h"
#include "tests/softgpu/memory.h"

pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

void driver_acquire(void)
{
	cancelling_off();
	pthread_mutex_lock(&driver_lock);
}

void driver_release(void)
{
	pthread_mutex_unlock(&driver_lock);
	logs_deliver();
	cancelling_on();
}

/* ENDED only ever replaces READY; FORKED that, and UNKNOWN where cuInit had begun. */
static enum { UNKNOWN, READY, NO_DEVICE, FORKED, ENDED } state;
static bool has_begun;

static void in_child(void)
{
	if (state == READY || (state == UNKNOWN && __atomic_load_n(&has_begun, __ATOMIC_RELAXED)))
		__atomic_store_n(&state, FORKED, __ATOMIC_RELAXED);
}

/* Before the first cuInit: another thread may fork while that runs. */
__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

/* Whoever calls later, from a destructor of his own, finds the driver gone. */
__attribute__((destructor)) static void end(void)
{
	__atomic_store_n(&state, state == READY ? ENDED : state, __ATOMIC_RELAXED);
}

/* Why it does not work. */
static CUresult not_ready(void)
{
	return __atomic_load_n(&state, __ATOMIC_RELAXED) == ENDED ? CUDA_ERROR_DEINITIALIZED
	                                                          : CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult initialise(void)
{
	devices_find();
	if (device_count == 0)
		return CUDA_ERROR_NO_DEVICE;
	if (!machine_join() || !physical_open() || !window_open())
		return CUDA_ERROR_OPERATING_SYSTEM;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuInit(unsigned int flags)
{
	CUresult result = injected_failure(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	/* A forked child has the parent's state, but not its threads; as in the real driver it must
	 * exec first. The lock may be held by a thread that is not here. */
	if (__atomic_load_n(&state, __ATOMIC_RELAXED) >= FORKED)
		return not_ready();
	__atomic_store_n(&has_begun, true, __ATOMIC_RELAXED);
	driver_acquire();
	if (state == UNKNOWN) {
		result = initialise();
		if (result == CUDA_SUCCESS)
			__atomic_store_n(&state, READY, __ATOMIC_RELAXED);
		else if (result == CUDA_ERROR_NO_DEVICE)
			__atomic_store_n(&state, NO_DEVICE, __ATOMIC_RELAXED);
	} else if (state == NO_DEVICE) {
		result = CUDA_ERROR_NO_DEVICE;
	}
	return leave(result);
}

bool driver_is_ready(void)
{
	return __atomic_load_n(&state, __ATOMIC_RELAXED) == READY;
}

/* The thread that others wait for, all of whose work is waited for. */
static pthread_t holder;
static bool is_held;

void hold_driver(void)
{
	while (is_held)
		wait_for_progress();
	holder = pthread_self();
	is_held = true;
}

void let_driver_go(void)
{
	if (is_held && pthread_equal(holder, pthread_self())) {
		is_held = false;
		announce_progress();
	}
}

CUresult enter_driver(const char *name)
{
	CUresult result = injected_failure(name);
	if (result != CUDA_SUCCESS)
		return result;
	if (!driver_is_ready())
		return not_ready();
	/* Host functions on streams must not call the driver: hardware may deadlock there. */
	if (this_thread()->in_host_function)
		return CUDA_ERROR_NOT_PERMITTED;
	driver_acquire();
	while (is_held)
		wait_for_progress();
	if (machine_is_terminated())
		return leave(CUDA_ERROR_MPS_CLIENT_TERMINATED);
	result = capture_check_call(name);
	return result == CUDA_SUCCESS ? CUDA_SUCCESS : leave(result);
}

CUresult enter_context(const char *name, struct context **context)
{
	CUresult result = enter_driver(name);
	if (result != CUDA_SUCCESS)
		return result;
	*context = current_context();
	if (!*context)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	if (!(*context)->alive)
		return leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
	return (*context)->error == CUDA_SUCCESS ? CUDA_SUCCESS : leave((*context)->error);
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	CUresult result = injected_failure(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = config()->driver_version;
	return CUDA_SUCCESS;
}

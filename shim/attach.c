/* SPDX-License-Identifier: MIT */
/*
 * Attaching: at the first call of any entry point the real driver is opened and the tables filled.
 *
 * Rules: nothing here runs before the program calls the driver; a failure leaves every entry point
 * with a defined answer.
 *
 * Entry points are published once, complete, and the loader is asked before anything is locked. So
 * of a thousand first calls at once none slips past its hook, and a library that calls the driver
 * while it is being loaded waits for no thread.
 */
#include "shim/attach.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/base/hash.h"
#include "core/base/loading.h"
#include "core/base/log.h"
#include "core/base/once.h"
#include "core/config/config.h"
#include "core/cuda/driver.h"
#include "core/memory/arena/host_probe.h"
#include "shim/disabled.h"
#include "shim/driver_open.h"
#include "shim/driver_symbols.h"
#include "shim/hide.h"
#include "shim/role.h"

void *shim_real[ENTRY_COUNT];
void *shim_hook[ENTRY_COUNT];
struct code shim_inside[2];

/* The names of the entry points, one after the other: a pointer to each the loader would write. */
static const char names[] =
#define OBJECT(symbol, bytes)
#define FUNCTION(symbol, class, action) #symbol "\0"
#include "shim/entry_points.h"
#undef FUNCTION
#undef OBJECT
    ;

extern const struct hook __start_shim_hooks[], __stop_shim_hooks[];

/* Told by the first caller. */
static const struct trampolines *_Atomic trampolines;
#define PLACE(table)                                             \
	((void *)((uintptr_t)&atomic_load(&trampolines)->table + \
	          (uintptr_t)(intptr_t)atomic_load(&trampolines)->table))
#define FUNCTIONS ((const char(*)[TRAMPOLINE_BYTES])PLACE(functions))
#define GUARDS    ((const char(*)[GUARD_BYTES])PLACE(guards))
#define TARGET    ((void **)PLACE(target))

/* The driver's functions by address, each entry's number and 1 near where its address leads. */
enum { PLACE_BITS = 11, PLACES = 1 << PLACE_BITS };
static uint16_t by_address[PLACES];
_Static_assert((int)ENTRY_COUNT < PLACES / 2, "a free place is near");

enum { PATIENCE_NS = 200000000, LOOK_NS = 1000000 };
static _Atomic pid_t first_process; /* that began to attach */
static _Atomic bool attached;
static void *driver_handle; /* NULL: there is no driver */
static _Atomic bool refused;
static struct once attach_once;

/* Stands in for a function that the driver at hand does not have. */
static CUresult missing_function(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Stands in for everything once the process was refused. */
static CUresult attach_refused_call(void)
{
	return CUDA_ERROR_NOT_PERMITTED;
}

static CUresult without_driver(void)
{
	return CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult init_without_driver(unsigned int flags)
{
	(void)flags;
	return CUDA_ERROR_NO_DEVICE;
}

/* Returns version 0, which the runtime API documents as "no driver is installed". */
static CUresult version_without_driver(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 0;
	return CUDA_SUCCESS;
}

/* Returns the place that has the address, or the free one for it. */
static uint16_t *attach_place_of(const void *real)
{
	uint64_t i = (uintptr_t)real * UINT64_C(0x9E3779B97F4A7C15) >> (64 - PLACE_BITS);

	while (by_address[i] && shim_real[by_address[i] - 1] != real)
		i = (i + 1) % PLACES;
	return &by_address[i];
}

/* Enters, of several symbols at one address, a hooked one. */
static void enter_addresses(bool hooked)
{
	for (uint32_t i = 0; i < ENTRY_COUNT; i++) {
		uint16_t *place;

		if (shim_real[i] == (void *)missing_function || (shim_hook[i] != NULL) != hooked)
			continue;
		place = attach_place_of(shim_real[i]);
		if (!*place)
			*place = (uint16_t)(i + 1);
	}
}

void *shim_address_for(void *real, bool *known)
{
	uint16_t entry;

	/* A driver that opens itself by its name to look its symbols up finds ours. */
	*known = (uintptr_t)real - (uintptr_t)FUNCTIONS < ENTRY_COUNT * sizeof(*FUNCTIONS);
	if (*known)
		return real;
	entry = *attach_place_of(real);
	*known = entry != 0;
	return *known && shim_hook[entry - 1] ? (void *)FUNCTIONS[entry - 1] : real;
}

/* Returns whether some form (_v2, _ptsz) of this function is hooked. */
static bool shim_acts_on(const char *name)
{
	const char *next = names, *rest;
	size_t length = strcspn(name, "_"); /* without its own form */

	for (uint32_t i = 0; i < ENTRY_COUNT; i++, next += strlen(next) + 1) {
		if (!shim_hook[i] || strncmp(next, name, length) != 0)
			continue;
		rest = next + length;
		if (*rest == '\0' || strncmp(rest, "_v", 2) == 0 || strncmp(rest, "_pt", 3) == 0)
			return true;
	}
	return false;
}

static bool is_missing(const char *symbol, uintptr_t address)
{
	size_t entry = (address - (uintptr_t)FUNCTIONS) / sizeof(*FUNCTIONS);

	(void)symbol;
	return entry < ENTRY_COUNT && shim_real[entry] == (void *)missing_function;
}

static void fill_core_driver(void)
{
#define X(symbol) driver.symbol = REAL(symbol);
	DRIVER_CALLS(X)
#undef X
}

static void install_hooks(void)
{
	/* cppcheck-suppress comparePointers ; the linker's names for two ends of one array */
	for (const struct hook *h = __start_shim_hooks; h < __stop_shim_hooks; h++) {
		uintptr_t trampoline = (uintptr_t)&h->trampoline + (uintptr_t)h->trampoline;
		size_t entry = (trampoline - (uintptr_t)FUNCTIONS) / sizeof(*FUNCTIONS);

		if (shim_real[entry] == (void *)missing_function)
			continue;
		__atomic_store_n(&shim_hook[entry], (char *)&h->function + h->function,
		                 __ATOMIC_RELEASE);
	}
	memset(by_address, 0, sizeof(by_address)); /* a fork may have broken off an attempt */
	enter_addresses(true);
	enter_addresses(false);
}

/*
 * Gives each entry point its place by one store, when all is ready. A thread that calls meanwhile
 * waits in its stub or goes where it always will, never past a hook.
 */
static void attach_publish(void)
{
	for (uint32_t i = 0; i < ENTRY_COUNT; i++)
		__atomic_store_n(&TARGET[i], shim_hook[i] ? (void *)GUARDS[i] : shim_real[i],
		                 __ATOMIC_RELEASE);
}

void shim_refuse(void)
{
	atomic_store(&refused, true);
	for (uint32_t i = 0; i < ENTRY_COUNT; i++)
		if (i != ENTRY_cuGetErrorName && i != ENTRY_cuGetErrorString &&
		    i != ENTRY_cuDriverGetVersion)
			__atomic_store_n(&TARGET[i], (void *)attach_refused_call, __ATOMIC_RELEASE);
}

/* The loader's answers to one thread, until they are taken or prove to be late. */
struct found {
	void *handle;
	void *real[ENTRY_COUNT];
	struct code inside[2];
	char path[PATH_MAX]; /* of the driver */
};
static __thread struct found *found __attribute__((tls_model("initial-exec")));

static void find_driver(const char *asked)
{
	struct driver_symbols symbols;
	const char *name = names;

	config_machine(); /* by which driver is not left to the environment */
	found->handle = driver_open(asked, found->path, sizeof(found->path));
	if (found->handle)
		driver_symbols_read(&symbols, found->handle);
	for (uint32_t i = 0; i < ENTRY_COUNT; i++, name += strlen(name) + 1) {
		void *real = (void *)without_driver;

		if (found->handle)
			real = driver_symbol(&symbols, name);
		found->real[i] = real ? real : (void *)missing_function;
	}
	if (found->handle) {
		log_debug("driver library: %s", found->path);
		found->inside[0] = driver_code(found->real[ENTRY_cuInit]);
		found->inside[1] = driver_code(GUARDS);
	} else {
		found->real[ENTRY_cuInit] = (void *)init_without_driver;
		found->real[ENTRY_cuDriverGetVersion] = (void *)version_without_driver;
	}
}

/* Attaches to the driver that was found. Runs once; asks the loader nothing. */
static void attach(void)
{
	bool has_driver = found->handle != NULL;

	memcpy(shim_real, found->real, sizeof(shim_real));
	if (has_driver) {
		memcpy(shim_inside, found->inside, sizeof(shim_inside));
		host_probe_by(found->path);
	}
	driver_handle = found->handle; /* it stays open */
	found->handle = NULL;
	shim_hide(is_missing);
	fill_core_driver();
	if (has_driver && !shim_is_disabled())
		install_hooks();
	attach_publish();
	atomic_store(&attached, true);
}

/*
 * Waits until the first thread has attached: one is enough. But it may be waiting for the loader,
 * which waits for us where a library calls the driver as it is loaded: so the wait has a bound.
 */
static void wait_for_the_first(void)
{
	struct deadline until = DEADLINE_IN(PATIENCE_NS);
	pid_t self = getpid(), first = atomic_load(&first_process);

	/* The first thread may be the parent's, in a forked child. */
	if (first != self && atomic_compare_exchange_strong(&first_process, &first, self)) {
		shim_take_role();
		if (!getauxval(AT_SECURE) && getenv("SPILLWAY_LOG"))
			log_configure(getenv("SPILLWAY_LOG"));
		return;
	}
	while (!atomic_load(&attached) && deadline_nap(&until, LOOK_NS))
		;
}

static __attribute__((noinline)) void find_and_attach(const char *path)
{
	int saved = errno, cancel;
	struct found *mine;

	/* Files are opened here: a thread cancelled half way would keep the loader's lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	wait_for_the_first();
	/* Not on the stack, which may be a small thread's. */
	mine = atomic_load(&attached) ? NULL : calloc(1, sizeof(*mine));
	if (mine) {
		found = mine; /* says, too, that the driver's constructors call back */
		loading_begin();
		find_driver(path);
		once_call(&attach_once, attach);
		loading_end();
		found = NULL;
		if (mine->handle)
			dlclose(mine->handle);
		free(mine);
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

void shim_attach(const char *path, const struct trampolines *from)
{
	if (found || atomic_load(&attached))
		return;
	atomic_store(&trampolines, from);
	find_and_attach(path);
}

void *shim_resolve(uint32_t entry, const struct trampolines *from)
{
	if (found)
		return (void *)without_driver;
	shim_attach(NULL, from);
	/* Without memory to attach there is no driver yet. */
	return atomic_load(&attached) ? TARGET[entry] : (void *)without_driver;
}

/*
 * Returns the driver's function of that name, which is no entry point of ours, or one that answers
 * why there is none. *lasts: a later call is answered the same.
 */
static void *shim_driver_function(const char *name, const struct trampolines *from, bool *lasts)
{
	void *function = NULL;

	*lasts = false;
	if (!found)
		shim_attach(NULL, from);
	if (found || !atomic_load(&attached) || !driver_handle)
		return (void *)without_driver;
	if (atomic_load(&refused))
		return (void *)attach_refused_call;
	function = dlsym(driver_handle, name);
	*lasts = function != NULL;
	return function ? function : (void *)missing_function;
}

/*
 * --- functions that we do not know: straight to the driver ---
 *
 * One exception: a newer form of a call that takes handles of memory is withheld from a job. The
 * driver does not know our handles.
 */

enum { NOTED_MAX = 256 };

/*
 * Returns whether a name is still to be said. Each is said once; when the table is full, no more.
 */
static bool unlisted_is_news(const char *symbol)
{
	static _Atomic uint64_t noted[NOTED_MAX];
	const uint64_t hash = hash_text(HASH_NOTHING, symbol) | 1;

	for (size_t i = 0; i < NOTED_MAX; i++) {
		uint64_t last = 0;

		if (atomic_compare_exchange_strong(&noted[i], &last, hash))
			return true;
		if (last == hash)
			return false;
	}
	return false;
}

/*
 * Returns whether calls of that name are given handles of memory, or pin it: the driver would not
 * know a handle of ours, and memory that it pinned would move.
 */
static bool takes_memory(const char *symbol)
{
	static const char families[][32] = {
	    "cuIpcGetMemHandle", "cuMemExport",    "cuMemGetAllocationProperties",
	    "cuMemGetHandle",    "cuMemMap",       "cuMemRelease",
	    "cuMemRetain",       "cuMemSetAccess", "cuMemUnmap",
	    "cuMulticast",
	};

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (strncmp(symbol, families[i], strlen(families[i])) == 0)
			return true;
	return false;
}

bool shim_withholds(const char *symbol, const char *by)
{
	bool acts = shim_acts_on(symbol);
	bool withheld = acts && takes_memory(symbol) && job_is_active();

	if (!(acts || log_enabled(LOG_DEBUG)) || !unlisted_is_news(symbol))
		return withheld;
	if (withheld)
		log_warning("%s(%s): the driver has a newer form than Spillway knows: the program "
		            "is told that it has none",
		            by, symbol);
	else if (acts)
		log_warning("%s(%s): the driver has a newer form than Spillway knows: calls of it "
		            "are neither limited nor counted",
		            by, symbol);
	else
		log_debug("%s(%s): unknown to Spillway, passed through", by, symbol);
	return withheld;
}

static CUresult unlisted_withheld(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Says once, in a job that has a name or a limit, that such functions are not accounted. */
static void say_unaccounted(const char *symbol)
{
	const struct job_config *job = job_configuration();

	if (job && (!job->is_unnamed || *job->shared_by))
		log_once(LOG_WARNING,
		         "%s: the driver has functions that Spillway does not know, and the "
		         "program calls them: they are neither limited nor counted; 'spillway "
		         "doctor' lists them",
		         symbol);
}

/*
 * The address is kept where later calls go the same way and there is nothing left to say. It is not
 * kept before cuInit, when there is no job yet, nor for a form that may be withheld.
 */
void *shim_resolve_unlisted(struct unlisted *function, const struct trampolines *from)
{
	const char *symbol = (const char *)function + function->name;
	int saved = errno;
	bool lasts;
	void *address = shim_driver_function(symbol, from, &lasts);

	if (lasts && shim_withholds(symbol, "linked"))
		address = (void *)unlisted_withheld;
	else if (lasts && job_is_active())
		say_unaccounted(symbol);
	if (lasts && !shim_acts_on(symbol) && (job_is_active() || shim_is_disabled()))
		__atomic_store_n(&function->address, address, __ATOMIC_RELEASE);
	errno = saved;
	return address;
}

/* SPDX-License-Identifier: MIT */
/* The shared file: physical memory and processes of every device. */
#include "core/base/file_status.h"
#include "tests/softgpu/machine_books.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct machine *machine;
struct machine_process *self;

uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void robust_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

static void robust_lock(pthread_mutex_t *mutex)
{
	if (pthread_mutex_lock(mutex) == EOWNERDEAD)
		pthread_mutex_consistent(mutex);
}

static __thread struct {
	int depth, before;
} uncancelled __attribute__((tls_model("initial-exec")));

void cancelling_off(void)
{
	if (!uncancelled.depth++)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &uncancelled.before);
}

void cancelling_on(void)
{
	if (!--uncancelled.depth)
		pthread_setcancelstate(uncancelled.before, NULL);
}

void books_lock(struct machine *books)
{
	cancelling_off();
	robust_lock(&books->lock);
}

void books_unlock(struct machine *books)
{
	pthread_mutex_unlock(&books->lock);
	cancelling_on();
}

/* Returns the number of this process's namespace of process ids; 0: not known. */
static uint64_t pid_space(void)
{
	struct stat found;
	return file_status("/proc/self/ns/pid", &found) == 0 ? (uint64_t)found.st_ino : 0;
}

/*
 * Returns whether no process has this number. That of another namespace says nothing: for example,
 * process 56 of a container need not be process 56 of the host.
 */
static bool is_gone(const struct machine_process *process)
{
	return kill(process->pid, 0) != 0 && errno == ESRCH && process->pid_space &&
	       process->pid_space == pid_space();
}

/* Returns whether the process's keeper holds its lock. */
static bool is_alive(struct machine_process *process)
{
	int result = pthread_mutex_trylock(&process->alive);
	if (result == EBUSY) {
		if (!is_gone(process))
			return true;
		robust_init(&process->alive); /* ended for lack of memory, and its list with it */
		return false;
	}
	if (result == EOWNERDEAD)
		pthread_mutex_consistent(&process->alive);
	pthread_mutex_unlock(&process->alive);
	return false;
}

/*
 * Drops the processes whose keeper is gone, or was found gone long enough ago: drivers take a while
 * to take a dead process's memory back. The books are locked.
 */
static void sweep(struct machine *books)
{
	for (int i = 0; i < MAX_PROCESSES; i++) {
		struct machine_process *process = &books->processes[i];
		if (!process->pid || process == self || is_alive(process))
			continue;
		uint64_t now = now_ns();
		if (!process->found_dead_ns)
			process->found_dead_ns = now;
		if (now - process->found_dead_ns < books->release_delay_ns)
			continue;
		shares_forget(books, i);
		process->pid = 0;
		process->found_dead_ns = 0;
		process->host = 0;
		memset(process->device, 0, sizeof(process->device));
		limiter_note(books, process->cgroup);
		process->cgroup[0] = '\0';
		process->is_terminated = 0;
		slices_forget(books, i);
	}
}

/* Gives the books of a directory that several users may write to the directory's group and mode. */
static void admit_users(int books)
{
	struct stat directory;
	if (file_status(config()->state_dir, &directory) != 0 || !(directory.st_mode & 022))
		return;
	mode_t all = directory.st_mode & 06, group = directory.st_mode & 060;
	if (fchown(books, (uid_t)-1, directory.st_gid) != 0)
		group = all << 3; /* this user is not in it: the file has a group of the user's */
	fchmod(books, 0600 | group | all);
}

/* Opens the books. O_CREAT is left out where they are there: in a sticky directory the kernel
 * refuses it for another user's file (fs.protected_regular). */
static int open_file_of_books(bool create)
{
	char path[600];
	machine_path(path, sizeof(path), config()->state_dir);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 || errno != ENOENT || !create)
		return fd;
	mkdir(config()->state_dir, 0700);
	fd = open(path, O_RDWR | O_CLOEXEC | O_CREAT, 0600);
	if (fd >= 0)
		admit_users(fd);
	return fd;
}

static struct machine *map_books(bool create)
{
	int fd = open_file_of_books(create);
	if (fd < 0)
		return NULL;
	struct machine *books = NULL;
	struct stat status;
	flock(fd, LOCK_EX);
	if (file_status_of(fd, &status) != 0)
		goto out;
	/* A file of another size is not one that this driver left: it is made anew. */
	if (status.st_size != (off_t)sizeof(*books) &&
	    (!create || ftruncate(fd, 0) != 0 ||
	     (errno = posix_fallocate(fd, 0, sizeof(*books))) != 0))
		goto out;
	books = mmap(NULL, sizeof(*books), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (books == MAP_FAILED) {
		books = NULL;
		goto out;
	}
	if (!books->ready) {
		robust_init(&books->lock);
		for (int i = 0; i < MAX_PROCESSES; i++)
			robust_init(&books->processes[i].alive);
		books->ready = 1;
	}
out:
	flock(fd, LOCK_UN);
	close(fd);
	return books;
}

/* Takes a slot for this process; the calling thread becomes its keeper. */
static bool take_slot(void)
{
	books_lock(machine);
	sweep(machine);
	struct machine_process *slot = NULL;
	bool others = false;
	for (int i = 0; i < MAX_PROCESSES; i++) {
		if (machine->processes[i].pid)
			others = true;
		else if (!slot)
			slot = &machine->processes[i];
	}
	if (slot) {
		robust_lock(&slot->alive);
		slot->pid_space = pid_space();
		slot->pid = getpid();
		snprintf(slot->cgroup, sizeof(slot->cgroup), "%s", config()->cgroup);
		self = slot;
		if (machine->process_count <= slot - machine->processes)
			machine->process_count = (int32_t)(slot - machine->processes) + 1;
	}
	/* The first one in says what the machine has; it stays so until all have left. */
	if (!others) {
		for (int i = 0; i < MAX_DEVICES; i++)
			machine->devices[i].total = config()->memory;
		machine->device_count = 0;
		machine->release_delay_ns = config()->release_delay_ns;
	}
	if (machine->device_count < config()->devices)
		machine->device_count = config()->devices;
	books_unlock(machine);
	return slot != NULL;
}

struct keeper {
	sem_t ready;
	bool ok;
};

static void *keep(void *argument)
{
	struct keeper *keeper = argument;
	bool ok = take_slot();
	keeper->ok = ok;
	sem_post(&keeper->ready); /* the keeper's memory is gone from here on */
	if (!ok)
		return NULL;
	for (;;)
		pause();
}

bool machine_join(void)
{
	machine = map_books(true);
	if (!machine) {
		say("cannot use the state directory %s: %s; SOFTGPU_STATE_DIR names another, which "
		    "users share if all may write to it (install -d -m 1777)",
		    config()->state_dir, strerror(errno));
		return false;
	}
	/* A thread of its own, so that a thread of the application that ends does not look like
	 * the end of the process. */
	struct keeper keeper = {.ok = false};
	sem_init(&keeper.ready, 0, 0);
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_t thread;
	int failed = pthread_create(&thread, NULL, keep, &keeper);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed)
		return false;
	pthread_detach(thread);
	while (sem_wait(&keeper.ready) != 0)
		continue;
	sem_destroy(&keeper.ready);
	if (!keeper.ok)
		say("more than %d processes", MAX_PROCESSES);
	return keeper.ok;
}

static uint64_t used_bytes(const struct machine *books, int device)
{
	uint64_t used = 0;
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (books->processes[i].pid)
			used += books->processes[i].device[device].physical;
	return used;
}

bool machine_is_terminated(void)
{
	return __atomic_load_n(&self->is_terminated, __ATOMIC_ACQUIRE);
}

bool machine_take(int device, uint64_t bytes)
{
	books_lock(machine);
	sweep(machine);
	uint64_t total = machine->devices[device].total;
	uint64_t used = used_bytes(machine, device);
	bool fits = used <= total && bytes <= total - used;
	bool is_allowed = !machine_is_terminated() && limiter_allows(machine, device, bytes);
	while (is_allowed && !fits && bytes <= total &&
	       limiter_makes_room(machine, device, bytes)) {
		used = used_bytes(machine, device);
		fits = used <= total && bytes <= total - used;
	}
	fits = fits && is_allowed;
	if (fits)
		self->device[device].physical += bytes;
	limiter_note(machine, self->cgroup);
	books_unlock(machine);
	return fits;
}

void machine_give(int device, uint64_t bytes)
{
	books_lock(machine);
	if (!machine_is_terminated())
		self->device[device].physical -= bytes;
	limiter_note(machine, self->cgroup);
	books_unlock(machine);
}

void machine_memory(int device, uint64_t *free_bytes, uint64_t *total_bytes)
{
	books_lock(machine);
	sweep(machine);
	*total_bytes = machine->devices[device].total;
	uint64_t used = used_bytes(machine, device);
	*free_bytes = used < *total_bytes ? *total_bytes - used : 0;
	limiter_memory(machine, device, free_bytes, total_bytes);
	books_unlock(machine);
}

void machine_sweep(void)
{
	books_lock(machine);
	sweep(machine);
	books_unlock(machine);
}

void machine_count_mapped(int device, int64_t bytes)
{
	__atomic_fetch_add(&self->device[device].mapped, (uint64_t)bytes, __ATOMIC_RELAXED);
}

void machine_count_fetched(int device, uint64_t bytes)
{
	__atomic_fetch_add(&self->device[device].fetched, bytes, __ATOMIC_RELAXED);
}

void machine_count_context(int device, bool is_made)
{
	__atomic_fetch_add(&self->device[device].contexts, is_made ? 1 : UINT64_MAX,
	                   __ATOMIC_RELAXED);
}

void machine_count_host(int64_t bytes)
{
	__atomic_fetch_add(&self->host, (uint64_t)bytes, __ATOMIC_RELAXED);
}

/* The books, joined or not; NULL where there are none. */
static struct machine *open_books(void)
{
	struct machine *books = machine ? machine : map_books(false);
	if (books) {
		books_lock(books);
		sweep(books);
	}
	return books;
}

static void close_books(struct machine *books)
{
	books_unlock(books);
	if (books != machine)
		munmap(books, sizeof(*books));
}

static bool is_anybody_in(const struct machine *books)
{
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (books->processes[i].pid)
			return true;
	return false;
}

int machine_device_count(void)
{
	struct machine *books = open_books();
	if (!books)
		return config()->devices;
	int count = is_anybody_in(books) ? books->device_count : config()->devices;
	close_books(books);
	return count;
}

void machine_device(int device, struct machine_device_state *state)
{
	*state = (struct machine_device_state){.total = config()->memory};
	struct machine *books = open_books();
	if (!books)
		return;
	if (is_anybody_in(books)) {
		state->total = books->devices[device].total;
		state->used = used_bytes(books, device);
	}
	state->recent_percent = recent_percent(books->devices[device].recent);
	close_books(books);
}

int machine_truth(int device, struct softgpu_truth *truth, int capacity)
{
	struct machine *books = open_books();
	if (!books)
		return -1;
	int count = 0;
	if (device < 0 || device >= books->device_count)
		count = -1;
	for (int i = 0; count >= 0 && i < MAX_PROCESSES; i++) {
		const struct machine_process *process = &books->processes[i];
		if (!process->pid)
			continue;
		const struct machine_use *use = &process->device[device];
		if (count < capacity)
			truth[count] = (struct softgpu_truth){
			    .pid = process->pid,
			    .physical_bytes = use->physical,
			    .mapped_bytes = __atomic_load_n(&use->mapped, __ATOMIC_RELAXED),
			    .host_bytes = __atomic_load_n(&process->host, __ATOMIC_RELAXED),
			    .fetched_bytes = __atomic_load_n(&use->fetched, __ATOMIC_RELAXED),
			    .busy_ns = __atomic_load_n(&use->busy_ns, __ATOMIC_RELAXED),
			    .launches = __atomic_load_n(&use->launches, __ATOMIC_RELAXED),
			    .contexts = __atomic_load_n(&use->contexts, __ATOMIC_RELAXED),
			    .recent_percent = recent_percent(use->recent),
			};
		count++;
	}
	close_books(books);
	return count;
}

/* SPDX-License-Identifier: MIT */
/*
 * All have died: the books of the software GPU, the state directory and the tool know of no
 * process.
 */
#include "tests/chaos/conductor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/softgpu/machine_books.h"

enum { PROCESSES = 128 };

static const struct machine *map_books(void)
{
	char path[80];
	int file;
	void *books;

	machine_path(path, sizeof(path), "softgpu");
	file = open(path, O_RDONLY | O_CLOEXEC);
	books = mmap(NULL, sizeof(struct machine), PROT_READ, MAP_SHARED, file, 0);
	if (file < 0 || books == MAP_FAILED)
		give_up("%s: %s", path, strerror(errno));
	close(file);
	return books;
}

static int count_held(const struct machine *books)
{
	static const struct machine_holders nobody;
	int count = 0;

	for (int i = 0; i < MAX_SHARED; i++)
		count += memcmp(&books->shared[i].holders, &nobody, sizeof(nobody)) != 0;
	for (int i = 0; i < MAX_EVENTS; i++)
		count += memcmp(&books->events[i].holders, &nobody, sizeof(nobody)) != 0;
	return count;
}

/* Children of those that were killed are killed by the kernel, a moment later. */
static void check_books(void)
{
	struct softgpu_truth truth[PROCESSES];
	const struct machine *books = map_books();
	uint64_t until = monotonic_ns() + PATIENCE_S * 1000000000ull;
	int count;

	while ((count = machine_truth(0, truth, PROCESSES)) != 0) {
		if (monotonic_ns() > until)
			give_up("after all have died the books have %d processes, the first pid %d "
			        "with %llu bytes",
			        count, truth[0].pid, (unsigned long long)truth[0].physical_bytes);
		nap_ms(20);
	}
	count = count_held(books);
	if (count != 0)
		give_up("after all have died %d things are still shared in the books", count);
}

static bool tool_says(const char *job, const char *text)
{
	const char *const words[] = {"stat", job, "--json", NULL};
	char *said = calloc(1, 1 << 20);
	pid_t pid = start_tool("stat.log", words);
	bool says;
	int status = 0, file;

	if (!said || waitpid(pid, &status, 0) != pid || status != 0)
		give_up("stat %s: status %#x: see stat.log", job, status);
	file = open("stat.log", O_RDONLY | O_CLOEXEC);
	if (file < 0 || read(file, said, (1 << 20) - 1) < 0)
		give_up("stat.log: %s", strerror(errno));
	close(file);
	says = strstr(said, text) != NULL;
	free(said);
	return says;
}

static void check_stat(const char *job)
{
	uint64_t until = monotonic_ns() + PATIENCE_S * 1000000000ull;

	while (!tool_says(job, "\"processes\":[]") || !tool_says(job, "\"device_charged\":0")) {
		if (monotonic_ns() > until)
			give_up("stat %s knows of processes or charges after all have died: see "
			        "stat.log",
			        job);
		nap_ms(100);
	}
}

static bool is_of_named(const char *name)
{
	static const char *const known[] = {"fixed.", "moving.", "turns-"};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strncmp(name, known[i], strlen(known[i])) == 0)
			return true;
	return false;
}

/*
 * Counts the files that belong to neither of the named jobs. Sockets stay for a minute at least,
 * until another process gives memory away.
 */
static int count_strangers(char *first, size_t size)
{
	DIR *folder = opendir("state");
	const struct dirent *entry;
	int count = 0;

	if (!folder)
		give_up("state: %s", strerror(errno));
	while ((entry = readdir(folder))) {
		if (entry->d_name[0] == '.' || is_of_named(entry->d_name) ||
		    strncmp(entry->d_name, "share-", 6) == 0 ||
		    strncmp(entry->d_name, "alone-", 6) == 0 ||
		    strncmp(entry->d_name, "driver-probe", 12) == 0)
			continue;
		if (count++ == 0)
			snprintf(first, size, "%s", entry->d_name);
	}
	closedir(folder);
	return count;
}

/*
 * A program that nobody named takes away what such programs left that were killed, once their
 * memory is sure to be back.
 */
static void check_files(void)
{
	uint64_t until = monotonic_ns() + PATIENCE_S * 1000000000ull;
	char first[256] = "";
	int count;

	do {
		run_one();
		count = count_strangers(first, sizeof(first));
		if (count && monotonic_ns() > until)
			give_up("%d files of jobs that nobody named are left, the first is %s",
			        count, first);
	} while (count != 0);
}

void check_after(void)
{
	check_files();
	check_books();
	check_stat(job_names[JOB_FIXED]);
	check_stat(job_names[JOB_MOVING]);
}

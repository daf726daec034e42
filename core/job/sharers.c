/* SPDX-License-Identifier: MIT */
/* Processes that share a limit. Rules: runs inside the user's process. */
#include "core/job/sharers.h"

#include "core/base/hash.h"
#include "core/config/config.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* PROC_PID_INIT_INO of the kernel: the machine's own pid namespace. */
#define MACHINE_NAMESPACE 0xEFFFFFFCul

const char *job_sharers_proc = "/proc";

/* Makes the name KIND-WHICH-HASH, of letters that a job's name may have. */
static void name_job(struct job_sharers *sharers, const char *kind, const char *which,
                     uint64_t hash)
{
	enum { WHICH_MAX = 36 };
	size_t length = strlen(which);
	char *name = sharers->name;

	snprintf(name, sizeof(sharers->name), "%s-%s-%08x", kind,
	         length > WHICH_MAX ? which + length - WHICH_MAX : which,
	         (unsigned)(hash ^ hash >> 32));
	for (; *name; name++) {
		bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
		             (*name >= '0' && *name <= '9') || *name == '.' || *name == '_';

		if (!plain)
			*name = '-';
	}
}

static bool sharers_find_cache(char *const *environment, uint64_t limits,
                               struct job_sharers *sharers)
{
	const char *path = config_variable(environment, "CUDA_DEVICE_MEMORY_SHARED_CACHE");
	const char *base = path ? strrchr(path, '/') : NULL;

	if (!path)
		return false;
	name_job(sharers, "cache", base ? base + 1 : path, hash_text(limits, path));
	snprintf(sharers->text, sizeof(sharers->text), "the cache %s", path);
	return true;
}

/*
 * Finds the Slurm job. Its number alone does not name it: each cluster counts for itself, and one
 * node, or one login node, may serve several. The tasks of an array and the components of a
 * heterogeneous job have numbers of their own. A text that is no number was not set by Slurm.
 */
static bool find_slurm(char *const *environment, uint64_t limits, struct job_sharers *sharers)
{
	const char *id = config_variable(environment, "SLURM_JOB_ID");
	const char *cluster = config_variable(environment, "SLURM_CLUSTER_NAME");
	size_t length = id ? strlen(id) : 0;

	if (length == 0 || length > 20 || strspn(id, "0123456789") != length)
		return false;
	name_job(sharers, "slurm", id, hash_text(limits, cluster ? cluster : ""));
	snprintf(sharers->text, sizeof(sharers->text), "Slurm job %s%s%s", id,
	         cluster ? " of cluster " : "", cluster ? cluster : "");
	return true;
}

/* Returns the number of our pid namespace, 0 where it cannot be read. */
static unsigned long namespace_number(void)
{
	char path[PATH_MAX], text[64];
	unsigned long number;
	ssize_t length;

	snprintf(path, sizeof(path), "%s/self/ns/pid", job_sharers_proc);
	length = readlink(path, text, sizeof(text) - 1);
	if (length <= 0)
		return 0;
	text[length] = '\0';
	return sscanf(text, "pid:[%lu]", &number) == 1 ? number : 0;
}

static bool find_container(uint64_t limits, struct job_sharers *sharers)
{
	unsigned long number = namespace_number();
	char which[32];

	if (number == 0 || number == MACHINE_NAMESPACE)
		return false;
	snprintf(which, sizeof(which), "%lu", number);
	name_job(sharers, "container", which, limits);
	snprintf(sharers->text, sizeof(sharers->text), "the container (pid namespace %lu)", number);
	return true;
}

/*
 * Finds the session by its number alone: the kernel gives it to no other process while one of the
 * session lives. The time at which its leader began would tell it from an earlier session of that
 * number, of which only dead processes can be in the job. But processes that come after the leader
 * has died could not ask for it, and would be a job of their own.
 */
static void find_session(uint64_t limits, struct job_sharers *sharers)
{
	char which[32];
	int session = (int)getsid(0);

	snprintf(which, sizeof(which), "%d", session);
	name_job(sharers, "session", which, limits);
	snprintf(sharers->text, sizeof(sharers->text), "POSIX session %d", session);
}

/* Replaces unprintable characters, because the text is shown on terminals and in a log. */
static void make_plain(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

void job_sharers_find(char *const *environment, uint64_t limits, struct job_sharers *sharers)
{
	if (!sharers_find_cache(environment, limits, sharers) &&
	    !find_slurm(environment, limits, sharers) && !find_container(limits, sharers))
		find_session(limits, sharers);
	make_plain(sharers->text);
}

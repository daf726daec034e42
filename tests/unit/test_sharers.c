/* SPDX-License-Identifier: MIT */
/* Tests of the sharers of a limit without a named job, and of that job's name. */
#include "core/job/sharers.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/state/directory.h"
#include "tests/unit/scratch.h"

#define ENVIRON(...) ((char *const *)(const char *const[]){__VA_ARGS__, NULL})

static const char machine[] = "pid:[4026531836]", container[] = "pid:[4026532201]";

/* A /proc in which our pid namespace is this one; NULL: it cannot be read. */
static void live_in(const char *namespace)
{
	static char proc[4200];
	char path[4300];

	snprintf(proc, sizeof(proc), "%s/proc-%s", scratch_folder, namespace ? namespace : "none");
	job_sharers_proc = proc;
	mkdir(proc, 0700);
	snprintf(path, sizeof(path), "%s/self", proc);
	mkdir(path, 0700);
	strcat(path, "/ns");
	mkdir(path, 0700);
	strcat(path, "/pid");
	unlink(path);
	if (namespace)
		ck_assert_int_eq(symlink(namespace, path), 0);
}

static struct job_sharers find(uint64_t limits, char *const *environment)
{
	struct job_sharers sharers;

	memset(&sharers, 'x', sizeof(sharers));
	job_sharers_find(environment, limits, &sharers);
	ck_assert_msg(directory_check_name(sharers.name) == 0, "%s", sharers.name);
	ck_assert_ptr_nonnull(memchr(sharers.text, '\0', sizeof(sharers.text)));
	return sharers;
}

static void expect(struct job_sharers sharers, const char *beginning, const char *text)
{
	ck_assert_msg(strncmp(sharers.name, beginning, strlen(beginning)) == 0, "%s", sharers.name);
	ck_assert_str_eq(sharers.text, text);
}

static void expect_same(struct job_sharers one, struct job_sharers other, bool same)
{
	ck_assert_msg((strcmp(one.name, other.name) == 0) == same, "%s and %s", one.name,
	              other.name);
}

#define CACHE   "CUDA_DEVICE_MEMORY_SHARED_CACHE=/usr/local/vgpu/5f3a.cache"
#define SLURM   "SLURM_JOB_ID=77"
#define CLUSTER "SLURM_CLUSTER_NAME=alps"

START_TEST(the_first_that_is_there)
{
	char name[64], text[64];

	live_in(container);
	expect(find(1, ENVIRON("A=b", SLURM, CLUSTER, CACHE)), "cache-5f3a.cache-",
	       "the cache /usr/local/vgpu/5f3a.cache");
	expect(find(1, ENVIRON(SLURM, CLUSTER)), "slurm-77-", "Slurm job 77 of cluster alps");
	expect(find(1, ENVIRON(SLURM)), "slurm-77-", "Slurm job 77");
	expect(find(1, ENVIRON("A=b")), "container-4026532201-",
	       "the container (pid namespace 4026532201)");
	live_in(machine);
	snprintf(name, sizeof(name), "session-%d-", (int)getsid(0));
	snprintf(text, sizeof(text), "POSIX session %d", (int)getsid(0));
	expect(find(1, ENVIRON("A=b")), name, text);
	live_in(NULL);
	expect(find(1, NULL), name, text);
}
END_TEST

START_TEST(limits_and_clusters_tell_jobs_apart)
{
	live_in(machine);
	expect_same(find(1, NULL), find(1, ENVIRON("SPILLWAY_MEMORY=1B")), true);
	expect_same(find(1, NULL), find(2, NULL), false);
	expect_same(find(1, ENVIRON(SLURM)), find(2, ENVIRON(SLURM)), false);
	expect_same(find(1, ENVIRON(SLURM)), find(1, ENVIRON(SLURM, CLUSTER)), false);
	expect_same(find(1, ENVIRON(SLURM, CLUSTER)),
	            find(1, ENVIRON(SLURM, "SLURM_CLUSTER_NAME=eiger")), false);
	/* By its end a path may be another's. */
	expect_same(find(1, ENVIRON(CACHE)),
	            find(1, ENVIRON("CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/5f3a.cache")), false);
	expect_same(find(1, ENVIRON(CACHE)), find(2, ENVIRON(CACHE)), false);
	struct job_sharers outside = find(1, NULL);
	live_in(container);
	expect_same(find(1, NULL), outside, false);
}
END_TEST

START_TEST(what_nobody_can_have_meant)
{
	static const char *const bad[] = {
	    "SLURM_JOB_ID=",       "SLURM_JOB_ID=../../x",
	    "SLURM_JOB_ID=7 7",    "SLURM_JOB_ID=-1",
	    "SLURM_JOB_ID=0x4d",   "SLURM_JOB_ID=123456789012345678901",
	    "SLURM_JOB_IDS=77",    "CUDA_DEVICE_MEMORY_SHARED_CACHE=",
	    "SLURM_CLUSTER_NAME=a"};
	char huge[4096], *environment[] = {huge, NULL};
	struct job_sharers sharers;

	live_in(machine);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		expect_same(find(1, ENVIRON(bad[i])), find(1, NULL), true);
	live_in("mnt:[7]");
	expect_same(find(1, NULL), find(1, ENVIRON("SLURM_JOB_ID=x")), true);
	ck_assert(strncmp(find(1, NULL).name, "session-", 8) == 0);

	/* Whatever letters, and however many, a name and a line come of it. */
	snprintf(huge, sizeof(huge), "CUDA_DEVICE_MEMORY_SHARED_CACHE=/x/%0*d", 4000, 0);
	ck_assert_uint_le(strlen(find(1, environment).name), 63);
	strcpy(huge, "CUDA_DEVICE_MEMORY_SHARED_CACHE=/x/ a/..\x1b[2J\n\xc2\x9b");
	sharers = find(1, environment);
	ck_assert_ptr_null(strpbrk(sharers.name, " /\x1b\n"));
	ck_assert_str_eq(sharers.text, "the cache /x/ a/..?[2J???");
	snprintf(huge, sizeof(huge), "SLURM_CLUSTER_NAME=%0*d", 4000, 0);
	find(1, ENVIRON(huge, SLURM));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sharers");
	TCase *tests = tcase_create("sharers");

	tcase_add_test(tests, the_first_that_is_there);
	tcase_add_test(tests, limits_and_clusters_tell_jobs_apart);
	tcase_add_test(tests, what_nobody_can_have_meant);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}

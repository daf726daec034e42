/* SPDX-License-Identifier: MIT */
/*
 * The override file: merged values, refused values, and the view of readers and rivals meanwhile.
 */
#include "core/base/deadline.h"
#include "core/base/hash.h"
#include "core/config/snapshot.h"
#include "core/ledger/codes.h"

#include "core/config/listener.h"

#include "tests/unit/scratch.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct config_error error;

static int set(const char *path, const char *selector, const char *key, const char *value)
{
	const char *const keys[] = {key, NULL};
	const char *const values[] = {value, NULL};

	memset(&error, 0, sizeof(error));
	return config_override_write(path, selector, keys, values,
	                             &(struct deadline){.patience_ns = 20000000000}, &error);
}

static void expect_text(const char *path, const char *expected)
{
	char *text = scratch_read(path);
	char *body = strchr(text, '\n') + 1; /* after the remark on who wrote it */
	size_t length = strlen(body) - strlen(LISTENER_WHOLE);

	ck_assert_str_eq(body + length, LISTENER_WHOLE); /* so that it is believed at once */
	body[length] = '\0';
	ck_assert_str_eq(body, expected);
	free(text);
}

static int count_files(void)
{
	char command[PATH_MAX + 32];
	int count = -1;
	FILE *list;

	snprintf(command, sizeof(command), "ls -A '%s' | wc -l", scratch_folder);
	list = popen(command, "r");
	ck_assert_int_eq(fscanf(list, "%d", &count), 1);
	pclose(list);
	return count;
}

/* A process that has not seen the change in between does not follow yet. */
START_TEST(a_value_that_comes_again_is_another_change)
{
	const char *path = scratch_path("again.ini");
	char *first, *again;

	ck_assert_int_eq(set(path, "", "memory", "16MiB"), 0);
	first = scratch_read(path);
	ck_assert_int_eq(set(path, "", "memory", "40MiB"), 0);
	ck_assert_int_eq(set(path, "", "memory", "16MiB"), 0);
	again = scratch_read(path);
	ck_assert_str_eq(strchr(again, '\n'), strchr(first, '\n'));
	ck_assert_uint_ne(hash_bytes(HASH_NOTHING, first, strlen(first)),
	                  hash_bytes(HASH_NOTHING, again, strlen(again)));
	free(first);
	free(again);
}
END_TEST

START_TEST(new_file)
{
	static const char *const keys[] = {"memory", "share", "spill", NULL};
	static const char *const values[] = {"8GiB", "70", NULL, NULL};
	const char *path = scratch_path("o.ini");
	struct config_sources sources = {.override_file = path};
	struct config_device device = {.ordinal = 0};
	struct config_gpu settings;
	struct config *config;
	struct stat status;

	ck_assert_msg(config_override_write(path, "", keys, values,
	                                    &(struct deadline){.patience_ns = 20000000000},
	                                    &error) == 0,
	              "%s", error.message);
	expect_text(path, "\n[gpu]\nmemory = 8GiB\nshare = 70\n");
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_uint_eq(status.st_mode & 07777, 0600);

	ck_assert_int_eq(config_load(&sources, &config, &error), 0);
	config_for_device(config, &device, &settings);
	ck_assert_uint_eq(settings.memory, UINT64_C(8) << 30);
	ck_assert_uint_eq(settings.share, 70000);
	config_release(config);
}
END_TEST

static struct config_cause read_cause(const char *path)
{
	struct config_sources sources = {.override_file = path};
	struct config_cause cause;
	struct config *config;

	ck_assert_int_eq(config_load(&sources, &config, &error), 0);
	cause = config_job(config)->cause;
	config_release(config);
	return cause;
}

START_TEST(a_change_names_its_cause)
{
	const char *path = scratch_path("cause.ini");

	config_cause = (struct config_cause){CAUSE_PAGE, 1000};
	ck_assert_int_eq(set(path, "", "memory", "16MiB"), 0);
	ck_assert_uint_eq(read_cause(path).through, CAUSE_PAGE);
	ck_assert_uint_eq(read_cause(path).by, 1000);
	config_cause = (struct config_cause){CAUSE_COMMAND, 0};
	ck_assert_int_eq(set(path, "", NULL, NULL), 0); /* as pause does */
	ck_assert_uint_eq(read_cause(path).through, CAUSE_COMMAND);
	expect_text(path, "\n[gpu]\nmemory = 16MiB\n");
	/* As an earlier version writes it. */
	path = scratch_write("cause.ini", "# Written by Spillway (1.000000002, 3): ...\n[gpu]\n");
	ck_assert_uint_eq(read_cause(path).through, CAUSE_NONE);
}
END_TEST

/* A value in an old spelling is replaced, not repeated; and jobs of before are written theirs. */
START_TEST(merge_over_an_old_spelling)
{
	const char *path = scratch_write("o.ini", "[gpu]\nmemory_limit = 8G\nshare = 70\n");

	ck_assert_int_eq(set(path, "", "memory", "4G"), 0);
	expect_text(path, "\n[gpu]\nmemory = 4G\nshare = 70\n");
	ck_assert_int_eq(set(path, "", config_key_name_for(CONFIG_KEY_memory, 7), "2G"), 0);
	expect_text(path, "\n[gpu]\nmemory_limit = 2G\nshare = 70\n");
	ck_assert_int_eq(set(path, "", "memory", NULL), 0);
	expect_text(path, "\n[gpu]\nshare = 70\n");
}
END_TEST

/* A process of before reads the value in the spelling that it knows, or none. */
START_TEST(mend_of_an_old_value)
{
	const char *path = scratch_write("o.ini", "[gpu]\nturn = exclusive\nshare = 70\n");
	struct deadline until = DEADLINE_IN(20000000000);
	char *text;

	ck_assert_int_eq(config_override_mend(path, 8, &until, &error), 0);
	ck_assert_int_eq(config_override_mend(path, 7, &until, &error), 1);
	text = scratch_read(path);
	ck_assert_str_eq(text, "[gpu]\n# turn = exclusive\nshare = 70\n");
	free(text);
	ck_assert_int_eq(set(path, "", "turn", config_value_for(CONFIG_KEY_turn, "exclusive", 7)),
	                 0);
	ck_assert_int_eq(config_override_mend(path, 7, &until, &error), 0);
}
END_TEST

START_TEST(merge)
{
	const char *path = scratch_write("o.ini", "[job]\n"
	                                          "labels = a=b ; mine\n"
	                                          "[gpu]\n"
	                                          "share = 70\n"
	                                          "memory = 8G\n"
	                                          "[gpu GPU-5AC3]\n"
	                                          "share = 10\n");

	chmod(path, 0644);
	ck_assert_int_eq(set(path, "", "share", "30"), 0);
	ck_assert_int_eq(set(path, "", "spill_after", "2"), 0);
	ck_assert_int_eq(set(path, "GPU-5ac3", "spill", "off"), 0);
	ck_assert_int_eq(set(path, "0", "share", "5"), 0);
	ck_assert_int_eq(set(path, "gpu-5ac3", "share", "11"), 0);
	expect_text(path, "\n[job]\nlabels = a=b\n"
	                  "\n[gpu]\nshare = 30\nmemory = 8G\nspill_after = 2\n"
	                  "\n[gpu GPU-5AC3]\nshare = 11\nspill = off\n"
	                  "\n[gpu 0]\nshare = 5\n");

	ck_assert_int_eq(set(path, "", "share", NULL), 0);
	ck_assert_int_eq(set(path, "", "share", NULL), 0);
	ck_assert_int_eq(set(path, "0", "share", NULL), 0);
	expect_text(path, "\n[job]\nlabels = a=b\n"
	                  "\n[gpu]\nmemory = 8G\nspill_after = 2\n"
	                  "\n[gpu GPU-5AC3]\nshare = 11\nspill = off\n");
	ck_assert_int_eq(count_files(), 2); /* it and its lock */
}
END_TEST

START_TEST(old_file_stands)
{
	static const char old[] = "[gpu]\nmemory = 8G\n";
	const char *path = scratch_write("o.ini", old);
	char *text;

	ck_assert_int_eq(set(path, "", "memory", "8Gx"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.message, "memory = 8Gx: expected a size"));
	ck_assert_int_eq(set(path, "", "memory_limt", "8G"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.message, "did you mean memory?"));
	ck_assert_int_eq(set(path, "", "memory_max", "4G"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.message, "below memory = 8G"));
	ck_assert_int_eq(set(path, "7x", "share", "4"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.message, "[gpu 7x]: expected an ordinal"));
	/* one value, one line */
	ck_assert_int_eq(set(path, "", "share", "70\n[job]"), -EINVAL);
	ck_assert_int_eq(set(path, "", "share", "70 ; x"), -EINVAL);
	ck_assert_int_eq(set(path, "", "[job]", "70"), -EINVAL);
	ck_assert_int_eq(set(path, "", "#share", "70"), -EINVAL);
	ck_assert_int_eq(set(path, "0]\n[gpu", "share", "70"), -EINVAL);

	text = scratch_read(path);
	ck_assert_str_eq(text, old);
	free(text);
	ck_assert_int_le(count_files(), 2);
}
END_TEST

START_TEST(bad_old_file)
{
	const char *path = scratch_write("o.ini", "[gpu]\nshare\n");

	ck_assert_int_eq(set(path, "", "share", "70"), -EINVAL);
	ck_assert_int_eq(error.line, 2);
}
END_TEST

START_TEST(symlinks)
{
	const char *target = scratch_write("target", "");
	const char *path = scratch_path("o.ini");
	const char *other = scratch_path("p.ini");
	char *text;

	ck_assert_int_eq(symlink(target, path), 0);
	ck_assert_int_eq(set(path, "", "share", "70"), -ELOOP);
	ck_assert_int_eq(symlink(target, scratch_path("p.ini.lock")), 0);
	ck_assert_int_eq(set(other, "", "share", "70"), -ELOOP);
	text = scratch_read(target);
	ck_assert_str_eq(text, "");
	free(text);
	ck_assert_int_eq(access(other, F_OK), -1);
}
END_TEST

START_TEST(no_folder)
{
	ck_assert_int_eq(set(scratch_path("no/o.ini"), "", "share", "70"), -ENOENT);
	ck_assert_ptr_nonnull(strstr(
	    error.message, "o.ini.lock: cannot be locked, so nothing is changed: No such file"));
}
END_TEST

/*
 * In another user's directory, whom root has become, may lie anything; nobody is waited for without
 * end.
 */
START_TEST(lock_that_is_none)
{
	const char *path = scratch_path("o.ini"), *lock = scratch_path("o.ini.lock");
	const char *const keys[] = {"share", NULL};
	const char *const values[] = {"70", NULL};
	struct deadline deadline = DEADLINE_IN(20000000);
	int held;

	ck_assert_int_eq(mkfifo(lock, 0600), 0);
	ck_assert_int_eq(set(path, "", "share", "70"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.message, "not a regular file"));
	unlink(lock);
	ck_assert_int_eq(symlink("/nonexistent", lock), 0);
	ck_assert_int_eq(set(path, "", "share", "70"), -ELOOP);
	unlink(lock);
	held = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(flock(held, LOCK_EX), 0);
	ck_assert_int_eq(config_override_write(path, "", keys, values, &deadline, &error), -ETIME);
	ck_assert_ptr_nonnull(strstr(error.message, "o.ini.lock: cannot be locked, so nothing is "
	                                            "changed: locked by another process"));
	close(held);
	deadline = DEADLINE_IN(20000000000);
	ck_assert_int_eq(config_override_write(path, "", keys, values, &deadline, &error), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(lock, 65534, 65534), 0);
		ck_assert_int_eq(set(path, "", "share", "80"), -EPERM);
		ck_assert_ptr_nonnull(strstr(error.message, "belongs to another user"));
	}
	unlink(path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	unlink(lock);
	ck_assert_int_eq(set(path, "", "share", "70"), -EINVAL);
}
END_TEST

START_TEST(full_disk)
{
	const char *path = scratch_write("o.ini", "[gpu]\nshare = 7\n");
	struct rlimit before, small;
	char *text;

	getrlimit(RLIMIT_FSIZE, &before);
	small = (struct rlimit){20, before.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	ck_assert_int_eq(set(path, "", "share", "70"), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &before);
	text = scratch_read(path);
	ck_assert_str_eq(text, "[gpu]\nshare = 7\n");
	free(text);
	ck_assert_int_eq(count_files(), 2); /* it and its lock */
}
END_TEST

START_TEST(umask_does_not_matter)
{
	const char *path = scratch_path("o.ini");
	struct stat status;

	umask(0777);
	ck_assert_int_eq(set(path, "", "share", "70"), 0);
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_uint_eq(status.st_mode & 07777, 0600);
}
END_TEST

enum { WRITERS = 4, WRITES = 50 };

static uint64_t spill_after(const char *path, int ordinal)
{
	struct config_sources sources = {.override_file = path};
	struct config_device device = {.ordinal = ordinal};
	struct config_gpu settings;
	struct config *config;

	if (config_load(&sources, &config, &error) != 0)
		return UINT64_MAX;
	config_for_device(config, &device, &settings);
	config_release(config);
	return settings.spill_after;
}

/* Each writer counts in a section of its own; no other may put an older count back. */
static void count_up(const char *path, int ordinal)
{
	char selector[16], value[16];

	snprintf(selector, sizeof(selector), "%d", ordinal);
	for (int i = 1; i <= WRITES; i++) {
		snprintf(value, sizeof(value), "%d", i);
		if (set(path, selector, "spill_after", value) != 0)
			_exit(1);
		if (spill_after(path, ordinal) != (uint64_t)i)
			_exit(2);
	}
	_exit(0);
}

START_TEST(rivals)
{
	const char *path = scratch_path("o.ini");
	int status;

	for (int writer = 0; writer < WRITERS; writer++)
		if (fork() == 0)
			count_up(path, writer);
	for (int writer = 0; writer < WRITERS; writer++) {
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	}
	for (int writer = 0; writer < WRITERS; writer++)
		ck_assert_uint_eq(spill_after(path, writer), WRITES);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("override");
	TCase *tests = tcase_create("override");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, scratch_make, scratch_remove);
	tcase_add_test(tests, new_file);
	tcase_add_test(tests, a_value_that_comes_again_is_another_change);
	tcase_add_test(tests, a_change_names_its_cause);
	tcase_add_test(tests, merge_over_an_old_spelling);
	tcase_add_test(tests, mend_of_an_old_value);
	tcase_add_test(tests, merge);
	tcase_add_test(tests, old_file_stands);
	tcase_add_test(tests, bad_old_file);
	tcase_add_test(tests, symlinks);
	tcase_add_test(tests, no_folder);
	tcase_add_test(tests, lock_that_is_none);
	tcase_add_test(tests, full_disk);
	tcase_add_test(tests, umask_does_not_matter);
	tcase_add_test(tests, rivals);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}

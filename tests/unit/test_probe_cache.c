/* SPDX-License-Identifier: MIT */
/* The cache of the driver's probe: which lines count, and the users with files that are read. */
#include "tests/unit/state_directory.h"

#include <errno.h>

#include "core/state/directory.h"
#include "core/state/probe_cache.h"
#include "core/state/segment.h"
#include "suite.h"

enum { VERSION = 13000 };
static const char device[] = "NVIDIA L40S";
static char key[PROBE_LINE_MAX], text[PROBE_CACHE_MAX], node_directory[600];

static void setup(void)
{
	state_directory_make();
	snprintf(node_directory, sizeof node_directory, "%s/node", state_directory);
	ck_assert_int_eq(mkdir(node_directory, 0777), 0);
	setenv("SPILLWAY_STATE_DIR", state_directory, 1);
	setenv("SPILLWAY_NODE_DIR", node_directory, 1);
	probe_cache_key(VERSION, device, key, sizeof key);
	*text = '\0';
}

static void teardown(void)
{
	state_directory_remove();
}

/* Adds a line of the key to the text. */
static void say(const char *answers)
{
	snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s\n", key, answers);
}

static void put(enum probe_place place)
{
	char path[1024];
	int fd;

	unlink(probe_cache_path(place, path, sizeof path));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static bool is_known(void)
{
	struct probe_answers found;

	return probe_cache_look_up(key, &found, NULL);
}

START_TEST(answers_are_read_by_key)
{
	struct probe_answers found;
	char other[PROBE_LINE_MAX];

	say(": host 0 copy crash node 801 mixed 1 unmap 600");
	ck_assert(probe_cache_find(text, key, &found));
	ck_assert_int_eq(found.of[PROBE_HOST], 0);
	ck_assert_int_eq(found.of[PROBE_COPY], PROBE_CRASHED);
	ck_assert_int_eq(found.of[PROBE_NODE], 801);
	ck_assert_int_eq(found.of[PROBE_MIXED], 1);
	ck_assert_int_eq(found.of[PROBE_UNMAP], 600);
	ck_assert_int_eq(found.numa[0], PROBE_UNKNOWN);
	/* Another version of the driver, and another kind of device. */
	probe_cache_key(VERSION - 1, device, other, sizeof other);
	ck_assert(!probe_cache_find(text, other, &found));
	probe_cache_key(VERSION, "NVIDIA L40", other, sizeof other);
	ck_assert(!probe_cache_find(text, other, &found));
	ck_assert_int_eq(found.of[PROBE_HOST], PROBE_UNKNOWN);
}
END_TEST

START_TEST(another_boot_does_not_count)
{
	struct probe_answers found;
	char boot[64];

	say(": host 0 copy 0 node 0 mixed 0 unmap 0");
	ck_assert(probe_cache_find(text, key, &found));
	ck_assert_int_eq(sscanf(key, "boot %63s", boot), 1);
	text[strlen("boot ")] = boot[0] == '0' ? '1' : '0';
	ck_assert(!probe_cache_find(text, key, &found));
}
END_TEST

START_TEST(each_node_has_a_line)
{
	struct probe_answers found;

	say(", NUMA node 1: crash");
	say(", NUMA node 3: 0");
	say(", NUMA node 64: 0");
	say(", NUMA node x: 0");
	ck_assert(!probe_cache_find(text, key, &found)); /* nodes alone say nothing of the rest */
	ck_assert_int_eq(found.numa[1], PROBE_CRASHED);
	ck_assert_int_eq(found.numa[3], 0);
	ck_assert_int_eq(found.numa[0], PROBE_UNKNOWN);
	say(": host 0 copy 0 node 0 mixed 0 unmap 0");
	ck_assert(probe_cache_find(text, key, &found));
}
END_TEST

/* No name of a device makes a line of its own, or ends the key early. */
START_TEST(names_of_devices_are_one_word_of_the_key)
{
	struct probe_answers found;

	probe_cache_key(VERSION, "a: host 0\nboot b, NUMA node 1: 0", key, sizeof key);
	ck_assert_ptr_null(strpbrk(key, ":,\n"));
	say(": host 0 copy 0 node 0 mixed 0 unmap 0");
	ck_assert(probe_cache_find(text, key, &found));
}
END_TEST

START_TEST(a_damaged_line_is_as_none)
{
	static const char *const damaged[] = {"",
	                                      ":",
	                                      ": ",
	                                      ": host 0 copy 0 node 0 mixed 0",
	                                      ": host 0 copy 0 node 0 mixed 0 unmap",
	                                      ": host 0 copy 0 node 0 mixed 0 unmap -3",
	                                      ": host 0 copy 0 node 0 mixed 0 unmap 0x",
	                                      ": host 0 copy 0 node 0 mixed 0 unmap 99999999999",
	                                      ": host 0 copy 0 node 0 mixed 0 unmap 0 more 0",
	                                      ": host 0 node 0 copy 0 mixed 0 unmap 0"};
	struct probe_answers found;

	for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
		*text = '\0';
		say(damaged[i]);
		ck_assert_msg(!probe_cache_find(text, key, &found), "%s", damaged[i]);
	}
	/* One that was cut off in its last answer: 600 became 60. */
	*text = '\0';
	say(": host 0 copy 0 node 0 mixed 0 unmap 60");
	text[strlen(text) - 1] = '\0';
	ck_assert(!probe_cache_find(text, key, &found));
	/* One that never ends, before one that is well. */
	memset(text, 'a', 5000);
	snprintf(text + 5000, sizeof text - 5000, "\n");
	say(": host 0 copy 0 node 0 mixed 0 unmap 0");
	ck_assert(probe_cache_find(text, key, &found));
}
END_TEST

START_TEST(a_users_own_is_read)
{
	char path[1024];

	ck_assert_int_eq(probe_cache_read(PROBE_OF_USER, text), -ENOENT);
	ck_assert(!is_known());
	say(": host 0 copy 0 node 0 mixed 0 unmap 0");
	put(PROBE_OF_USER);
	errno = 123;
	ck_assert(is_known());
	ck_assert_int_eq(errno, 123);
	probe_cache_path(PROBE_OF_USER, path, sizeof path);
	chmod(path, 0620);
	ck_assert(!is_known());
	ck_assert_int_eq(probe_cache_read(PROBE_OF_USER, text), -EPERM);
}
END_TEST

START_TEST(what_is_no_file_of_ours_is_not_read)
{
	char path[1024], elsewhere[1024];

	say(": host 0 copy 0 node 0 mixed 0 unmap 0");
	put(PROBE_OF_USER);
	probe_cache_path(PROBE_OF_USER, path, sizeof path);
	snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", state_directory);
	ck_assert_int_eq(rename(path, elsewhere), 0);
	for (int place = 0; place < PROBE_PLACES; place++) {
		probe_cache_path((enum probe_place)place, path, sizeof path);
		ck_assert_int_eq(symlink(elsewhere, path), 0);
		ck_assert(!is_known());
		ck_assert_int_eq(probe_cache_read((enum probe_place)place, text), -ELOOP);
		unlink(path);
		ck_assert_int_eq(mkfifo(path, 0600), 0); /* nobody writes: no wait */
		ck_assert_int_eq(probe_cache_read((enum probe_place)place, text), -EINVAL);
		unlink(path);
		ck_assert_int_eq(mkdir(path, 0700), 0);
		ck_assert(!is_known());
		rmdir(path);
	}
	unlink(elsewhere);
}
END_TEST

START_TEST(another_users_is_not_read)
{
	char path[1024];

	if (geteuid() != 0)
		return;
	say(": host 0 copy 0 node 0 mixed 0 unmap 0");
	for (int place = 0; place < PROBE_PLACES; place++) {
		put((enum probe_place)place);
		ck_assert(is_known());
		probe_cache_path((enum probe_place)place, path, sizeof path);
		ck_assert_int_eq(chown(path, 65534, 65534), 0);
		ck_assert(!is_known());
		unlink(path);
	}
}
END_TEST

/* In the node's directory only root's counts, to root as to others. */
START_TEST(roots_is_preferred)
{
	struct probe_answers found;
	enum probe_place place;
	char path[1024], second[1100];

	if (geteuid() != 0)
		return;
	say(": host 0 copy 0 node 0 mixed 0 unmap 0");
	say(", NUMA node 1: 0");
	put(PROBE_OF_USER);
	ck_assert(probe_cache_look_up(key, &found, &place));
	ck_assert_int_eq(place, PROBE_OF_USER);
	*text = '\0';
	say(": host 0 copy 0 node 0 mixed 1 unmap 600");
	say(", NUMA node 0: 0");
	put(PROBE_OF_ROOT);
	ck_assert(probe_cache_look_up(key, &found, &place));
	ck_assert_int_eq(place, PROBE_OF_ROOT);
	ck_assert_int_eq(found.of[PROBE_MIXED], 1);
	ck_assert_int_eq(found.numa[0], 0);
	ck_assert_int_eq(found.numa[1], 0); /* root's has no line of it */
	/* An old file of root's, to which another user gave this name. */
	probe_cache_path(PROBE_OF_ROOT, path, sizeof path);
	snprintf(second, sizeof second, "%s.second", path);
	ck_assert_int_eq(link(path, second), 0);
	ck_assert_int_eq(probe_cache_read(PROBE_OF_ROOT, text), -EPERM);
	unlink(second);
	unlink(path);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("probe cache");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, answers_are_read_by_key);
	tcase_add_test(tests, another_boot_does_not_count);
	tcase_add_test(tests, each_node_has_a_line);
	tcase_add_test(tests, names_of_devices_are_one_word_of_the_key);
	tcase_add_test(tests, a_damaged_line_is_as_none);
	tcase_add_test(tests, a_users_own_is_read);
	tcase_add_test(tests, what_is_no_file_of_ours_is_not_read);
	tcase_add_test(tests, another_users_is_not_read);
	tcase_add_test(tests, roots_is_preferred);
	return suite_run("probe cache", tests);
}

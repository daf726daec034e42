/* SPDX-License-Identifier: MIT */
/*
 * The turn file: its place, the users that may share it, obstacles in its way, and makers that
 * race.
 */
#include "tests/unit/state_directory.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/state/directory.h"
#include "core/pages/turns.h"

#define UUID  "GPU-7370696c-6c77-6179-2073-6f6674677000"
#define OTHER UINT32_C(12345) /* a user */

static char node[560], message[1024];

static void setup(void)
{
	state_directory_make();
	snprintf(node, sizeof node, "%s/node", state_directory);
	ck_assert_int_eq(mkdir(node, 0700), 0);
	ck_assert_int_eq(chmod(node, 01777), 0);
	setenv("SPILLWAY_NODE_DIR", node, 1);
}

static void teardown(void)
{
	DIR *directory = opendir(node);
	for (struct dirent *entry; directory && (entry = readdir(directory));)
		if (unlinkat(dirfd(directory), entry->d_name, 0) != 0)
			unlinkat(dirfd(directory), entry->d_name, AT_REMOVEDIR);
	if (directory)
		closedir(directory);
	unlink(node);
	rmdir(node);
	state_directory_remove();
}

enum place { ROOTS, OURS, STATE };

static const char *path_of(enum place place)
{
	static char path[3][640];
	snprintf(path[ROOTS], sizeof path[0], "%s/turns-" UUID, node);
	snprintf(path[OURS], sizeof path[0], "%s/turns-" UUID "-%u", node, (unsigned)geteuid());
	snprintf(path[STATE], sizeof path[0], "%s/turns-" UUID, state_directory);
	return path[place];
}

static void make(enum place place, const void *bytes, size_t size, mode_t mode, uid_t owner)
{
	int fd = open(path_of(place), O_CREAT | O_EXCL | O_WRONLY, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
	ck_assert_int_eq(fchown(fd, owner, (gid_t)-1), 0);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

static off_t size_of(enum place place)
{
	struct stat found;
	return lstat(path_of(place), &found) == 0 ? found.st_size : -1;
}

/*
 * Opens it, and makes sure that it is the file at this place: what is written to the one is in the
 * other.
 */
static struct turns *opens(enum place place)
{
	static uint64_t number = 1000;
	uint64_t found = 0;

	struct turns *turns = turns_open(UUID, message, sizeof message);
	ck_assert_msg(turns != NULL, "%s", message);
	ck_assert_str_eq(message, "");
	atomic_store(&turns->began_ns, ++number);
	int fd = open(path_of(place), O_RDONLY);
	ck_assert_msg(fd >= 0, "%s: %s", path_of(place), strerror(errno));
	ck_assert_int_eq(pread(fd, &found, sizeof found, offsetof(struct turns, began_ns)),
	                 sizeof found);
	ck_assert_uint_eq(found, number);
	close(fd);
	return turns;
}

static void finds(enum place place, bool by_root, const char *why)
{
	char path[640];
	bool is_root = !by_root;
	ck_assert(turns_find(UUID, path, sizeof path, &is_root, message, sizeof message));
	ck_assert_str_eq(path, path_of(place));
	ck_assert_int_eq(is_root, by_root);
	ck_assert_msg(*why ? strstr(message, why) != NULL : !*message, "%s", message);
}

START_TEST(what_everybody_may_write_to_serves_for_no_turns)
{
	unsetenv("SPILLWAY_NODE_DIR");
	directory_node = node;
	opens(STATE);
	finds(STATE, false, "");
	ck_assert_int_eq(size_of(OURS), -1);
	directory_node = DIRECTORY_NODE;
}
END_TEST

START_TEST(is_ours_in_the_node_s_directory)
{
	struct stat found;

	finds(OURS, false, "");
	ck_assert_int_eq(size_of(OURS), -1); /* looking makes nothing */
	umask(0777);                         /* must not matter */
	struct turns *one = opens(OURS);
	umask(022);
	finds(OURS, false, "");
	ck_assert_int_eq(memcmp(one->magic, "SPILTURN", 8), 0);
	ck_assert_uint_eq(one->version, TURNS_VERSION);
	ck_assert_int_eq(lstat(path_of(OURS), &found), 0);
	ck_assert_uint_eq(found.st_mode, S_IFREG | 0600);
	ck_assert_uint_eq(found.st_size, one->size);
	ck_assert_uint_ge(found.st_blocks * 512, one->size);

	/* What is in it stays, for whoever opens it next. */
	atomic_store(&one->lane[TURN_LANES - 1].owner, 5);
	struct turns *two = opens(OURS);
	ck_assert_uint_eq(two->lane[TURN_LANES - 1].owner, 5);
	atomic_store(&two->changed, 9);
	ck_assert_uint_eq(one->changed, 9);
	ck_assert_int_eq(size_of(STATE), -1);
}
END_TEST

START_TEST(is_in_the_state_directory_without_a_node_s)
{
	setenv("SPILLWAY_NODE_DIR", "/nonexistent/spillway", 1);
	finds(STATE, false, "");
	opens(STATE);
	unlink(path_of(STATE));
	setenv("SPILLWAY_NODE_DIR", "relative", 1);
	finds(STATE, false, "absolute");
	opens(STATE);
	unlink(path_of(STATE));
	ck_assert_int_eq(rmdir(node), 0);
	close(open(node, O_CREAT | O_WRONLY, 0600));
	setenv("SPILLWAY_NODE_DIR", node, 1);
	finds(STATE, false, "Not a directory");
	opens(STATE);
	setenv("SPILLWAY_STATE_DIR", "/proc/nothing", 1);
	ck_assert_ptr_null(turns_open(UUID, message, sizeof message));
	ck_assert_ptr_nonnull(strstr(message, "/proc/nothing"));
}
END_TEST

START_TEST(takes_no_other_name)
{
	static const char *const bad[] = {
	    "",  "../turns",     "GPU 1",
	    ".", "GPU-\xc3\xa4", "0123456789012345678901234567890123456789-0123456"};
	char path[64];
	bool by_root;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		ck_assert_ptr_null(turns_open(bad[i], message, sizeof message));
		ck_assert_ptr_nonnull(strstr(message, "UUID"));
		ck_assert(
		    !turns_find(bad[i], path, sizeof path, &by_root, message, sizeof message));
	}
}
END_TEST

START_TEST(root_s_file_is_for_whom_root_chose)
{
	if (geteuid() != 0)
		return; /* nobody else can give root a file */
	make(ROOTS, "", 0, 0660, 0);
	finds(ROOTS, true, "");
	struct turns *turns = opens(ROOTS);
	ck_assert_int_eq(size_of(ROOTS), turns->size);
	ck_assert_int_eq(size_of(OURS), -1);

	/* Whoever may write may cut it short, under those who have mapped it. */
	chmod(path_of(ROOTS), 0666);
	finds(OURS, false, "mode 0666");
	opens(OURS);
	chmod(path_of(ROOTS), 0660);
	opens(ROOTS);
	ck_assert_int_eq(chown(path_of(ROOTS), OTHER, 0), 0);
	finds(OURS, false, "belongs to user 12345");
	opens(OURS);
}
END_TEST

static void opens_as_other(void *as_group)
{
	char reached[32]; /* whatever folders it lies in */
	snprintf(reached, sizeof reached, "/proc/self/fd/%d", open(node, O_RDONLY | O_DIRECTORY));
	setenv("SPILLWAY_NODE_DIR", reached, 1);
	if ((*(bool *)as_group && setresgid(OTHER, OTHER, OTHER) != 0) ||
	    setresuid(OTHER, OTHER, OTHER) != 0)
		_exit(2);
	struct turns *turns = turns_open(UUID, message, sizeof message);
	if (!turns)
		_exit(3);
	atomic_store(&turns->holder, 77);
}

START_TEST(users_share_what_root_gave_their_group)
{
	if (geteuid() != 0)
		return;
	make(ROOTS, "", 0, 0660, 0);
	ck_assert_int_eq(chown(path_of(ROOTS), 0, OTHER), 0);
	struct turns *turns = opens(ROOTS);
	bool as_group = true;
	pid_t child = child_start(opens_as_other, &as_group);
	ck_assert_uint_eq(turns->holder, 77);
	child_kill(child);

	/* One who is not of the group has a file of its own, which is not ours to use. */
	char path[640];
	atomic_store(&turns->holder, 0);
	ck_assert_int_eq(chown(path_of(ROOTS), 0, 0), 0);
	ck_assert_int_eq(chmod(path_of(ROOTS), 0600), 0);
	as_group = false;
	child = child_start(opens_as_other, &as_group);
	ck_assert_uint_eq(turns->holder, 0);
	child_kill(child);
	snprintf(path, sizeof path, "%s/turns-" UUID "-%u", node, OTHER);
	ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

static void expect_passed_over(const char *why)
{
	finds(STATE, false, why);
	opens(STATE);
	ck_assert_int_eq(unlink(path_of(STATE)), 0);
	if (unlink(path_of(OURS)) != 0)
		ck_assert_int_eq(rmdir(path_of(OURS)), 0);
}

START_TEST(what_is_no_file_of_ours_is_passed_over)
{
	char other[640];

	ck_assert_int_eq(mkdir(path_of(OURS), 0700), 0);
	expect_passed_over("directory");
	ck_assert_int_eq(mkfifo(path_of(OURS), 0600), 0);
	expect_passed_over("not a turn file");
	snprintf(other, sizeof other, "%s/other", node);
	close(open(other, O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(symlink("other", path_of(OURS)), 0);
	expect_passed_over("symbolic");
	ck_assert_int_eq(link(other, path_of(OURS)), 0);
	expect_passed_over("another name");
	struct stat found;
	ck_assert_int_eq(stat(other, &found), 0);
	ck_assert_int_eq(found.st_size, 0);
	make(OURS, "", 0, 0620, geteuid());
	expect_passed_over("mode 0620");
	if (geteuid() == 0) {
		make(OURS, "", 0, 0600, OTHER);
		expect_passed_over("belongs to user 12345");
	}
}
END_TEST

static void patch(enum place place, off_t at, const void *bytes, size_t size)
{
	int fd = open(path_of(place), O_WRONLY);
	ck_assert_int_eq(pwrite(fd, bytes, size, at), (ssize_t)size);
	close(fd);
}

START_TEST(what_does_not_fit_is_never_mapped)
{
	static const uint32_t version = 7;
	char page[8192] = "not a turn file at all";
	size_t size;

	opens(OURS);

	patch(OURS, offsetof(struct turns, version), &version, sizeof version);
	opens(STATE);
	ck_assert_int_eq(unlink(path_of(OURS)), 0);
	size = opens(OURS)->size;
	ck_assert_int_eq(truncate(path_of(OURS), (off_t)size - 1), 0);
	opens(STATE);
	ck_assert_int_eq(truncate(path_of(OURS), (off_t)size + 1), 0);
	opens(STATE);
	ck_assert_int_eq(truncate(path_of(OURS), 12), 0);
	opens(STATE);
	ck_assert_int_eq(unlink(path_of(OURS)), 0);
	make(OURS, page, sizeof page, 0600, geteuid());
	opens(STATE);
	memset(page, 0, sizeof page); /* longer than one that is to be made */
	patch(OURS, 0, page, sizeof page);
	opens(STATE);

	/* In the last place, too: there are no turns, and it is said why. */
	patch(STATE, offsetof(struct turns, version), &version, sizeof version);
	ck_assert_ptr_null(turns_open(UUID, message, sizeof message));
	ck_assert_msg(strstr(message, "version 7, expected version 1") != NULL, "%s", message);
	ck_assert_msg(strstr(message, path_of(STATE)) != NULL, "%s", message);
}
END_TEST

START_TEST(what_a_killed_maker_left_is_completed)
{
	static const char none[4000];
	size_t size = opens(OURS)->size;

	for (size_t length = 0; length <= sizeof none; length += sizeof none) {
		ck_assert_int_eq(unlink(path_of(OURS)), 0);
		make(OURS, none, length, 0600, geteuid());
		ck_assert_uint_eq(opens(OURS)->size, size);
		ck_assert_int_eq(size_of(OURS), size);
	}
}
END_TEST

START_TEST(after_a_reboot_nobody_is_in_it)
{
	struct turns *turns = opens(OURS);

	atomic_store(&turns->lane[3].owner, 5);
	atomic_store(&turns->lanes, 4);
	atomic_store(&turns->holder, 5);
	patch(OURS, sizeof *turns, "another-boot", 12);
	ck_assert_uint_eq(opens(OURS)->lane[3].owner, 0);
	ck_assert_uint_eq(turns->holder, 0);
	ck_assert_uint_eq(turns->lanes, 0);
	/* That was one reset, for this boot. */
	atomic_store(&turns->lane[3].owner, 6);
	ck_assert_uint_eq(opens(OURS)->lane[3].owner, 6);
}
END_TEST

static void hold_lock(void *path)
{
	int fd = open(path, O_RDWR);
	if (fd < 0 || flock(fd, LOCK_EX) != 0)
		_exit(1);
}

START_TEST(a_stopped_maker_is_waited_for_with_an_end)
{
	make(OURS, "", 0, 0600, geteuid());
	pid_t child = child_start(hold_lock, (void *)path_of(OURS));
	opens(STATE); /* check's time limit judges */
	child_kill(child);
	opens(OURS);
}
END_TEST

START_TEST(a_file_size_limit_is_no_signal)
{
	struct rlimit small = {1024, 1024};

	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	ck_assert_ptr_null(turns_open(UUID, message, sizeof message));
	ck_assert_msg(strstr(message, strerror(EFBIG)) != NULL, "%s", message);
}
END_TEST

/* A round: processes that find no file, all at once; each leaves its mark in the one file. */
static void race(int round)
{
	enum { RACERS = 8 };
	char uuid[32];
	int start[2];
	char byte;

	snprintf(uuid, sizeof uuid, "GPU-%d", round);
	ck_assert_int_eq(pipe(start), 0);
	pid_t racers[RACERS];
	for (int i = 0; i < RACERS; i++) {
		racers[i] = fork();
		if (racers[i] != 0)
			continue;
		close(start[1]);
		ssize_t end = read(start[0], &byte, 1); /* all at once */
		struct turns *turns = end == 0 ? turns_open(uuid, message, sizeof message) : NULL;
		if (turns)
			atomic_fetch_add(&turns->lane[i].paid_until, (uint64_t)i + 1);
		_exit(turns == NULL);
	}
	close(start[0]);
	close(start[1]);
	for (int i = 0; i < RACERS; i++) {
		int status;
		ck_assert_int_eq(waitpid(racers[i], &status, 0), racers[i]);
		ck_assert_int_eq(status, 0);
	}
	struct turns *turns = turns_open(uuid, message, sizeof message);
	ck_assert_ptr_nonnull(turns);
	for (int i = 0; i < RACERS; i++)
		ck_assert_uint_eq(turns->lane[i].paid_until, (uint64_t)i + 1);
}

START_TEST(racing_makers_share_one_file)
{
	for (int round = 0; round < 50; round++)
		race(round);
}
END_TEST

/* In memory, where the kernel knows the writers of a file. */
static void setup_in_memory(void)
{
	setenv("TMPDIR", "/dev/shm", 1);
	setup();
}

/* Leaves a file of another version, as a job of that version did. */
static void leave(enum place place, mode_t mode)
{
	char bytes[2048];
	const uint32_t version = 7;

	memset(bytes, 0xa5, sizeof bytes);
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a file begins with 8 bytes */
	memcpy(bytes, "SPILTURN", 8);
	memcpy(bytes + 8, &version, sizeof version);
	unlink(path_of(place));
	make(place, bytes, sizeof bytes, mode, place == ROOTS ? 0 : geteuid());
}

/* Maps the file as every version does, and keeps no descriptor. */
static void live_in(void *where)
{
	int fd = open(where, O_RDWR);

	if (mmap(NULL, 2048, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
		_exit(1);
	close(fd);
}

START_TEST(another_version_serves_while_a_process_has_it)
{
	char *where = (char *)path_of(OURS);
	pid_t process;

	leave(OURS, 0600);
	process = child_start(live_in, where);
	ck_assert_int_eq(turns_clean(), 0);
	opens(STATE);
	ck_assert_int_eq(size_of(OURS), 2048);
	child_kill(process);
	opens(OURS);
}
END_TEST

START_TEST(cleaning_removes_other_versions_that_no_process_has)
{
	struct stat found;

	leave(OURS, 0600);
	leave(STATE, 0600);
	ck_assert_int_eq(turns_clean(), 2);
	ck_assert_int_eq(size_of(OURS), -1);
	ck_assert_int_eq(size_of(STATE), -1);
	opens(OURS);
	ck_assert_int_eq(turns_clean(), 0);
	ck_assert_int_gt(size_of(OURS), 0);
	if (geteuid() != 0)
		return;
	/* Root's stays root's choice of a group and a mode. */
	leave(ROOTS, 0660);
	ck_assert_int_eq(chown(path_of(ROOTS), 0, OTHER), 0);
	ck_assert_int_eq(turns_clean(), 1);
	ck_assert_int_eq(stat(path_of(ROOTS), &found), 0);
	ck_assert_int_eq(found.st_size, 0);
	ck_assert_uint_eq(found.st_gid, OTHER);
	ck_assert_uint_eq(found.st_mode, S_IFREG | 0660);
	opens(ROOTS);
}
END_TEST

/* The rights of the job's user decide, not those of the caller. */
START_TEST(root_s_file_is_judged_by_a_user_s_rights)
{
	static const struct {
		mode_t mode;
		uid_t owner;
		gid_t group;
		nlink_t links;
		bool by_member, by_stranger, by_root;
	} row[] = {
	    {S_IFREG | 0660, 0, 44, 1, true, false, true},
	    {S_IFREG | 0664, 0, 44, 1, true, false, true},
	    {S_IFREG | 0640, 0, 44, 1, false, false, true}, /* may not write */
	    {S_IFREG | 0620, 0, 44, 1, false, false, true}, /* may not read */
	    {S_IFREG | 0606, 0, 44, 1, false, false, false},
	    {S_IFREG | 0666, 0, 44, 1, false, false, false},
	    {S_IFREG | 0660, 0, 0, 1, false, false, true},
	    {S_IFREG | 0660, 1000, 44, 1, false, false, false}, /* of a user */
	    {S_IFREG | 0660, 0, 44, 2, false, false, false},
	    {S_IFDIR | 0660, 0, 44, 1, false, false, false},
	};
	static const gid_t member[] = {1000, 20, 44}, stranger[] = {1000, 20};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct stat file = {.st_mode = row[i].mode,
		                          .st_uid = row[i].owner,
		                          .st_gid = row[i].group,
		                          .st_nlink = row[i].links};

		ck_assert_msg(turns_may_use(&file, 1000, member, 3) == row[i].by_member &&
		                  turns_may_use(&file, 1000, stranger, 2) == row[i].by_stranger &&
		                  !turns_may_use(&file, 1000, NULL, 0) &&
		                  turns_may_use(&file, 0, NULL, 0) == row[i].by_root,
		              "row %zu", i);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("turns");
	TCase *tests = tcase_create("turns");
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, what_everybody_may_write_to_serves_for_no_turns);
	tcase_add_test(tests, is_ours_in_the_node_s_directory);
	tcase_add_test(tests, is_in_the_state_directory_without_a_node_s);
	tcase_add_test(tests, takes_no_other_name);
	tcase_add_test(tests, root_s_file_is_for_whom_root_chose);
	tcase_add_test(tests, users_share_what_root_gave_their_group);
	tcase_add_test(tests, root_s_file_is_judged_by_a_user_s_rights);
	tcase_add_test(tests, what_is_no_file_of_ours_is_passed_over);
	tcase_add_test(tests, what_does_not_fit_is_never_mapped);
	tcase_add_test(tests, what_a_killed_maker_left_is_completed);
	tcase_add_test(tests, after_a_reboot_nobody_is_in_it);
	tcase_add_test(tests, a_stopped_maker_is_waited_for_with_an_end);
	tcase_add_test(tests, a_file_size_limit_is_no_signal);
	tcase_add_test(tests, racing_makers_share_one_file);
	suite_add_tcase(suite, tests);
	tests = tcase_create("other versions");
	tcase_add_checked_fixture(tests, setup_in_memory, teardown);
	tcase_add_test(tests, another_version_serves_while_a_process_has_it);
	tcase_add_test(tests, cleaning_removes_other_versions_that_no_process_has);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}

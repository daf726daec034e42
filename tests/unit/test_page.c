/* SPDX-License-Identifier: MIT */
/*
 * Pages: written when due, gone with their job, stale after a kill, and files that other users put
 * in their place.
 */
#include "tests/unit/ledger.h"
#include "tests/unit/state_directory.h"

#include <errno.h>
#include <sys/resource.h>

#include "core/base/clock.h"
#include "core/config/config.h"
#include "core/state/layout.h"
#include "core/pages/page.c" /* page_read(), page_lives(), too */

static char node[560], why[256];
static struct segment *segment;

static const struct segment_device gpu = {
    .uuid = "GPU-1", .pci_bus_id = "0000:01:00.0", .name = "a GPU", .memory = 1 << 30};

static void setup(void)
{
	state_directory_make();
	snprintf(node, sizeof node, "%s/node", state_directory);
	ck_assert_int_eq(mkdir(node, 0700), 0);
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
	rmdir(node);
	state_directory_remove();
}

static void join(const char *job)
{
	char message[512];
	ck_assert_int_eq(segment_join(job, "pod=a,team=b", "", &segment, message, sizeof message),
	                 0);
	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	ledger_says(segment, &(const struct facts){.limit = 5000, .share = 60000});
}

/* As if the time since the last look had passed. */
static void publish_page(void)
{
	atomic_store(&segment->file->header.page_ns, 0);
	page_publish(segment);
}

static int open_node(void)
{
	int fd = open(node, O_RDONLY | O_DIRECTORY);
	ck_assert_int_ge(fd, 0);
	return fd;
}

/* Counts the files in the node's directory, and names the last one. */
static int files(char name[256])
{
	DIR *directory = opendir(node);
	int count = 0;
	for (struct dirent *entry; (entry = readdir(directory));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(name, 256, "%s", entry->d_name);
		count++;
	}
	closedir(directory);
	return count;
}

static ino_t only_file(void)
{
	struct stat found;
	char name[256], path[900];
	ck_assert_int_eq(files(name), 1);
	snprintf(path, sizeof path, "%s/%s", node, name);
	ck_assert_int_eq(stat(path, &found), 0);
	return found.st_ino;
}

static struct page read_only(void)
{
	char name[256] = "";
	struct page page;
	uid_t owner;
	int directory = open_node();
	ck_assert_int_eq(files(name), 1);
	ck_assert_msg(page_read(directory, name, &page, &owner, why, sizeof why) == 0, "%s", why);
	ck_assert_uint_eq(owner, geteuid());
	close(directory);
	return page;
}

/* Into the file as it stands, under the name that it has. */
static void overwrite(const struct page *page)
{
	char name[256];
	int directory = open_node();
	ck_assert_int_eq(files(name), 1);
	int fd = openat(directory, name, O_WRONLY);
	ck_assert_int_eq(pwrite(fd, page, sizeof *page, 0), (ssize_t)sizeof *page);
	close(fd);
	close(directory);
}

START_TEST(tells_of_a_job)
{
	char name[256], path[900];
	struct stat found;
	mode_t mask = umask(077);

	join("tells");
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 3000, CONFIG_UNLIMITED), 0);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_HOST, 70, CONFIG_UNLIMITED), 0);
	page_publish(segment);
	umask(mask);

	struct page page = read_only();
	ck_assert_str_eq(page.job, "tells");
	ck_assert_str_eq(page.labels, "pod=a,team=b");
	ck_assert_str_eq(page.directory, state_directory);
	ck_assert_uint_eq(page.device_count, 1);
	ck_assert_uint_eq(page.processes, 1);
	ck_assert_int_eq(page.pid, getpid());
	ck_assert_str_eq(page.device[0].device.uuid, "GPU-1");
	ck_assert_str_eq(page.device[0].device.pci_bus_id, "0000:01:00.0");
	ck_assert_str_eq(page.device[0].device.name, "a GPU");
	ck_assert_uint_eq(page.device[0].device.memory, 1 << 30);
	ck_assert_uint_eq(page.device[0].charged[SEGMENT_ON_DEVICE], 3000);
	ck_assert_uint_eq(page.device[0].charged[SEGMENT_ON_HOST], 70);
	ck_assert_uint_eq(page.device[0].limit, 5000);
	ck_assert_uint_eq(page.device[0].share, 60000);
	ck_assert(page_lives(&page));

	files(name);
	snprintf(path, sizeof path, "%s/%s", node, name);
	ck_assert_int_eq(stat(path, &found), 0);
	ck_assert_int_eq(found.st_mode & 07777, 0644);
	page_withdraw(segment);
	ck_assert_int_eq(files(name), 0);
	segment_leave(segment);
}
END_TEST

/* Of a device that the writer does not use the page goes on saying what another said. */
START_TEST(tells_of_host_limits)
{
	struct page page;

	join("host");
	page_publish(segment);
	ck_assert_uint_eq(read_only().device[0].host_limit, 0);
	page_note_host_limit(segment, 0, 4097);
	publish_page();
	ck_assert_uint_eq(read_only().device[0].host_limit, 4097);
	page = read_only();
	page.device[0].host_limit = 8193;
	overwrite(&page);
	page_note_host_limit(segment, 0, 0);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 1, CONFIG_UNLIMITED), 0);
	publish_page();
	ck_assert_uint_eq(read_only().device[0].host_limit, 8193);
	ck_assert_uint_eq(read_only().device[0].charged[SEGMENT_ON_DEVICE], 1);
	page_withdraw(segment);
	segment_leave(segment);
}
END_TEST

START_TEST(is_written_when_due)
{
	join("due");
	page_publish(segment);
	ino_t first = only_file();

	/* not again so soon, whatever changed */
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 1, CONFIG_UNLIMITED), 0);
	page_publish(segment);
	ck_assert_uint_eq(read_only().device[0].charged[SEGMENT_ON_DEVICE], 0);
	/* later, as something changed; by rename: who has it open has the old one whole */
	int directory = open_node();
	char name[256];
	files(name);
	int held = openat(directory, name, O_RDONLY);
	publish_page();
	ck_assert_uint_eq(read_only().device[0].charged[SEGMENT_ON_DEVICE], 1);
	ino_t second = only_file();
	ck_assert_uint_ne(second, first);
	close(held);
	close(directory);
	/* not again, as nothing changed */
	publish_page();
	ck_assert_uint_eq(only_file(), second);
	/* but as a sign of life */
	struct page page = read_only();
	page.written_ns -= PAGE_BEAT_NS;
	overwrite(&page);
	publish_page();
	ck_assert_uint_gt(read_only().written_ns, page.written_ns + PAGE_BEAT_NS / 2);
	/* and where somebody removed it */
	files(name);
	directory = open_node();
	unlinkat(directory, name, 0);
	close(directory);
	publish_page();
	ck_assert_str_eq(read_only().job, "due");
	page_withdraw(segment);
	/* gone for good */
	publish_page();
	ck_assert_int_eq(files(name), 0);
	segment_leave(segment);
}
END_TEST

static void live_in(void *job)
{
	join(job);
	publish_page();
}

START_TEST(outlives_one_of_two_processes)
{
	char name[256];
	pid_t other = child_start(live_in, (char[]){"two"});
	join("two");
	publish_page();
	ck_assert_uint_eq(read_only().processes, 2);
	segment_exiting(segment);
	page_withdraw(segment);
	ck_assert_int_eq(files(name), 1);
	child_kill(other);
	page_withdraw(segment);
	ck_assert_int_eq(files(name), 0);
	segment_leave(segment);
}
END_TEST

START_TEST(is_stale_when_its_job_was_killed)
{
	char name[256];
	pid_t killed = child_start(live_in, (char[]){"killed"});
	struct page page = read_only();
	ck_assert(page_lives(&page));
	ck_assert_int_eq(page_sweep(), 0);
	child_kill(killed);
	ck_assert(!page_lives(&page));
	/* another process of the job may be about to write it */
	page.processes = 2;
	ck_assert(page_lives(&page));
	/* the number belongs to somebody else by now */
	page.processes = 1;
	page.pid = 1;
	ck_assert(!page_lives(&page));
	/* the next job cleans up, whatever the program has made of its environment since */
	join("next");
	setenv("SPILLWAY_NODE_DIR", "/nowhere", 1);
	publish_page();
	setenv("SPILLWAY_NODE_DIR", node, 1);
	ck_assert_int_eq(files(name), 1);
	ck_assert_str_eq(read_only().job, "next");
	page_withdraw(segment);
	segment_leave(segment);
}
END_TEST

START_TEST(is_stale_when_it_is_old)
{
	/* on a machine that has just booted nothing is so old */
	while (clock_now() <= PAGE_STALE_NS)
		pause_ms(100);
	join("old");
	publish_page();
	struct page page = read_only(), other;

	/* stopped, and seen from its own namespace: it lives */
	page.written_ns -= PAGE_STALE_NS;
	ck_assert(page_lives(&page));
	/* from another one nothing but its age tells */
	page.pid_namespace++;
	ck_assert(!page_lives(&page));
	page.written_ns += PAGE_STALE_NS / 2;
	ck_assert(page_lives(&page));
	other = page;
	other.pid_namespace = 0;
	ck_assert(page_lives(&other));
	other.written_ns += 1ull << 60;
	ck_assert(!page_lives(&other));
	other = page;
	other.boot_id[0] ^= 1;
	ck_assert(!page_lives(&other));
	/* a number that means many processes asks none of them */
	other = page;
	other.pid_namespace--;
	other.pid = -1;
	ck_assert(page_lives(&other));
	page_withdraw(segment);
	segment_leave(segment);
}
END_TEST

static int directory_of_forger;
static char forged_name[256];

/* Under its right name, cut or made longer to size. */
static void forge(const struct page *page, size_t size)
{
	static char bytes[3 * sizeof(struct page)];
	memcpy(bytes, page, sizeof *page);
	int fd = openat(directory_of_forger, forged_name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
	close(fd);
}

static void expect_refused(const char *part)
{
	struct page page;
	uid_t owner;
	int error = page_read(directory_of_forger, forged_name, &page, &owner, why, sizeof why);
	ck_assert_int_lt(error, 0);
	ck_assert_msg(strstr(why, part) != NULL, "%s, expected %s", why, part);
	ck_assert_int_eq(page_read(directory_of_forger, forged_name, &page, &owner, NULL, 0),
	                 error);
}

START_TEST(believes_no_forged_page)
{
	join("forged");
	publish_page();
	const struct page good = read_only();
	struct page page;

	files(forged_name);
	directory_of_forger = open_node();
	forge(&good, 0);
	expect_refused("not a page");
	forge(&good, 15);
	expect_refused("not a page");
	forge(&good, sizeof good - 1);
	expect_refused("page of 3663 bytes");
	forge(&good, sizeof good + 1);
	expect_refused("page of 3665 bytes");
	ck_assert_int_eq(truncate(node, 0), -1);
	int fd = openat(directory_of_forger, forged_name, O_WRONLY);
	ck_assert_int_eq(ftruncate(fd, (off_t)1 << 40), 0);
	close(fd);
	expect_refused("page of 1099511627776 bytes");

#define FORGE(change, part)                \
	do {                               \
		page = good;               \
		change;                    \
		forge(&page, sizeof page); \
		expect_refused(part);      \
	} while (0)
	FORGE(page.magic[7] = 'X', "not a page");
	FORGE(page.version = PAGE_VERSION + 1, "page of version 4, expected version 3");
	FORGE(page.size++, "expected");
	FORGE(memset(page.job, 'a', sizeof page.job), "damaged");
	FORGE(strcpy(page.job, "../up"), "damaged");
	FORGE(page.job[0] = '\0', "damaged");
	FORGE(memset(page.labels, 'a', sizeof page.labels), "damaged");
	FORGE(strcpy(page.labels, "a=\033[2J"), "damaged");
	FORGE(strcpy(page.labels, "a=\302\23331m"), "damaged");
	FORGE(strcpy(page.labels, "a=\23331m"), "damaged");
	FORGE(memset(page.directory, '/', sizeof page.directory), "damaged");
	FORGE(strcpy(page.directory, "/a\nb"), "damaged");
	FORGE(memset(page.boot_id, '1', sizeof page.boot_id), "damaged");
	FORGE(page.device_count = SEGMENT_DEVICES + 1, "damaged");
	FORGE(page.processes = SEGMENT_SLOTS + 1, "damaged");
	FORGE(memset(page.device[0].device.uuid, 'a', 48), "damaged");
	FORGE(memset(page.device[0].device.pci_bus_id, 'a', 16), "damaged");
	FORGE(strcpy(page.device[0].device.name, "\177"), "damaged");
	/* a page of another job, or by another name */
	FORGE(strcpy(page.job, "another"), "page of another name");
	FORGE(page.number++, "page of another name");
	forge(&good, sizeof good);
	ck_assert_str_eq(read_only().job, "forged");
	close(directory_of_forger);
	page_withdraw(segment);
	segment_leave(segment);
}
END_TEST

static void count(void *cookie, const struct page_found *found)
{
	ck_assert_str_eq(found->page.job, "good");
	++*(int *)cookie;
}

START_TEST(opens_nothing_but_files)
{
	int found = 0;
	char path[700], name[256];

	join("good");
	publish_page();
	files(name);
	ck_assert_int_eq(page_list(count, &found, why, sizeof why), 0);
	ck_assert_int_eq(found, 1);
	directory_of_forger = open_node();
	ck_assert_int_eq(symlinkat(name, directory_of_forger, "job-0-link-0.page"), 0);
	ck_assert_int_eq(mkfifoat(directory_of_forger, "job-0-pipe-0.page", 0666), 0);
	ck_assert_int_eq(mkdirat(directory_of_forger, "job-0-folder-0.page", 0755), 0);
	ck_assert_int_eq(
	    linkat(directory_of_forger, name, directory_of_forger, "job-0-twin-0.page", 0), 0);
	snprintf(path, sizeof path, "%s/turns-GPU-1", node); /* no page's name */
	close(open(path, O_CREAT | O_WRONLY, 0600));
	found = 0;
	ck_assert_int_eq(page_list(count, &found, why, sizeof why), 4);
	ck_assert_int_eq(found, 1);
	ck_assert_ptr_nonnull(strstr(why, ".page: "));
	close(directory_of_forger);
	page_withdraw(segment);
	segment_leave(segment);
}
END_TEST

/* Whatever one user puts there: others' jobs are listed, whichever is met first. */
START_TEST(nobody_hides_the_jobs_of_others)
{
	enum { MANY = 5000 };
	char name[64];
	int found = 0, directory = open_node();

	if (geteuid() != 0)
		return; /* who else could give files to another user */
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "job-0-%d-0.page", i);
		int fd = openat(directory, name, O_CREAT | O_WRONLY, 0600);
		ck_assert_int_eq(fchown(fd, 65533, 65533), 0);
		close(fd);
	}
	join("good");
	publish_page();
	ck_assert_int_eq(page_list(count, &found, why, sizeof why), MANY);
	ck_assert_int_eq(found, 1);
	close(directory);
	page_withdraw(segment);
	segment_leave(segment);
}
END_TEST

static void count_any(void *cookie, const struct page_found *found)
{
	(void)found;
	++*(int *)cookie;
}

START_TEST(lists_so_many_of_one_user)
{
	char name[64];
	int found = 0, directory = open_node();

	join("good");
	publish_page();
	struct page page = read_only();
	page_withdraw(segment);
	for (int i = 1; i <= PAGE_OF_OWNER_MAX + 50; i++) {
		page.number = (uint64_t)i;
		snprintf(name, sizeof name, "job-%u-good-%016x.page", (unsigned)geteuid(),
		         (unsigned)i);
		int fd = openat(directory, name, O_CREAT | O_WRONLY, 0600);
		ck_assert_int_eq(write(fd, &page, sizeof page), (ssize_t)sizeof page);
		close(fd);
	}
	ck_assert_int_eq(page_list(count_any, &found, why, sizeof why), 50);
	ck_assert_int_eq(found, PAGE_OF_OWNER_MAX);
	ck_assert_ptr_nonnull(strstr(why, "has more than 1024"));
	close(directory);
	segment_leave(segment);
}
END_TEST

/* In a directory where everybody may put files and nobody may remove others'. */
static void squat(const char *name)
{
	ck_assert_int_eq(mkdirat(directory_of_forger, name, 0700), 0);
}

START_TEST(a_name_that_was_taken_is_given_up)
{
	char name[300], taken[256];

	directory_of_forger = open_node();
	join("good");
	publish_page();
	ck_assert_int_eq(files(taken), 1);
	uint64_t number = read_only().number;
	ck_assert_uint_ne(number, 0);
	ck_assert_uint_ne(number, segment->file->header.token);
	/* while the page is there nobody else can have its name; then somebody does, for good */
	unlinkat(directory_of_forger, taken, 0);
	squat(taken);
	snprintf(name, sizeof name, ".%s.0", taken);
	squat(name);
	publish_page();
	int pages = 0;
	ck_assert_int_eq(page_list(count, &pages, why, sizeof why), 1); /* the folder */
	ck_assert_int_eq(pages, 1);
	ck_assert_uint_ne(atomic_load(&segment->file->header.page_number), number);
	/* and goes on so */
	ledger_says(segment, &(const struct facts){.limit = 6000, .share = 60000});
	publish_page();
	pages = 0;
	page_list(count, &pages, why, sizeof why);
	ck_assert_int_eq(pages, 1);
	page_withdraw(segment);
	pages = 0;
	page_list(count, &pages, why, sizeof why);
	ck_assert_int_eq(pages, 0);
	segment_leave(segment);
	close(directory_of_forger);
}
END_TEST

/* A page that a job of another version left, in the name of this user. */
static void leave_page(const char *name, uint32_t version, const char *boot_id, bool is_old)
{
	const struct timespec then[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	int directory = open_node(), fd;
	struct page page = {.version = version, .size = 100};

	memcpy(page.magic, PAGE_MAGIC, sizeof page.magic);
	if (boot_id)
		strcpy(page.boot_id, boot_id);
	else
		segment_read_boot_id(page.boot_id);
	fd = openat(directory, name, O_CREAT | O_WRONLY, 0644);
	ck_assert_int_eq(write(fd, &page, 100), 100);
	close(fd);
	if (is_old)
		ck_assert_int_eq(utimensat(directory, name, then, 0), 0);
	close(directory);
}

START_TEST(sweeps_pages_of_other_versions)
{
	static const char another_boot[] = "00000000-1111-2222-3333-444444444444";
	char names[4][64];
	int directory = open_node();

	for (int i = 0; i < 4; i++)
		snprintf(names[i], sizeof names[i], "job-%u-old-000000000000000%d.page",
		         (unsigned)geteuid(), i);
	leave_page(names[0], PAGE_VERSION + 1, NULL, true);
	leave_page(names[1], PAGE_VERSION - 1, another_boot, false);
	leave_page(names[2], PAGE_VERSION + 1, NULL, false); /* its job may live */
	leave_page(names[3], PAGE_VERSION, NULL, true);      /* it is damaged */
	ck_assert_int_eq(page_sweep(), 2);
	ck_assert_int_ne(faccessat(directory, names[0], F_OK, 0), 0);
	ck_assert_int_ne(faccessat(directory, names[1], F_OK, 0), 0);
	ck_assert_int_eq(faccessat(directory, names[2], F_OK, 0), 0);
	ck_assert_int_eq(faccessat(directory, names[3], F_OK, 0), 0);
	close(directory);
}
END_TEST

/*
 * What a process that was killed while it wrote has left goes with the next that looks; that of one
 * who writes stays.
 */
START_TEST(sweeps_what_is_unfinished)
{
	const struct timespec then[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	/* Written before the clock was set back. */
	const struct timespec years_ahead[2] = {{.tv_sec = 4000000000}, {.tv_sec = 4000000000}};
	int directory = open_node();
	char name[256];

	close(openat(directory, ".page-0000000000000001", O_CREAT | O_WRONLY, 0600));
	close(openat(directory, ".page-0000000000000002", O_CREAT | O_WRONLY, 0600));
	close(openat(directory, ".page-0000000000000003", O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(utimensat(directory, ".page-0000000000000001", then, 0), 0);
	ck_assert_int_eq(utimensat(directory, ".page-0000000000000003", years_ahead, 0), 0);
	page_sweep();
	ck_assert_int_eq(files(name), 1);
	ck_assert_str_eq(name, ".page-0000000000000002");
	close(directory);
}
END_TEST

START_TEST(does_without)
{
	struct rlimit before, none;
	char name[256];
	int found = 0;

	/* a file's size is limited: no signal, nothing left */
	join("without");
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_FSIZE, &none); /* no assertion meanwhile: it writes a file, too */
	publish_page();
	setrlimit(RLIMIT_FSIZE, &before);
	ck_assert_int_eq(files(name), 0);
	/* somebody sits on its name */
	publish_page();
	files(name);
	int directory = open_node();
	unlinkat(directory, name, 0);
	ck_assert_int_eq(mkdirat(directory, name, 0755), 0);
	close(directory);
	publish_page();
	ck_assert_int_eq(files(name), 2); /* it has taken another */
	page_withdraw(segment);
	segment_leave(segment);
	/* no directory, or none of a kind that will do */
	static const char *const bad[] = {"/nonexistent/spillway", "relative", "/dev/null"};
	for (size_t i = 0; i < 3; i++) {
		setenv("SPILLWAY_NODE_DIR", bad[i], 1);
		join("without");
		publish_page();
		page_withdraw(segment);
		segment_leave(segment);
		ck_assert_int_eq(page_list(count, &found, why, sizeof why), -1);
		ck_assert_int_eq(page_sweep(), 0);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("page");
	TCase *tests = tcase_create("page");
	tcase_set_timeout(tests, 100);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, tells_of_a_job);
	tcase_add_test(tests, tells_of_host_limits);
	tcase_add_test(tests, is_written_when_due);
	tcase_add_test(tests, outlives_one_of_two_processes);
	tcase_add_test(tests, is_stale_when_its_job_was_killed);
	tcase_add_test(tests, is_stale_when_it_is_old);
	tcase_add_test(tests, believes_no_forged_page);
	tcase_add_test(tests, opens_nothing_but_files);
	tcase_add_test(tests, nobody_hides_the_jobs_of_others);
	tcase_add_test(tests, lists_so_many_of_one_user);
	tcase_add_test(tests, a_name_that_was_taken_is_given_up);
	tcase_add_test(tests, sweeps_pages_of_other_versions);
	tcase_add_test(tests, sweeps_what_is_unfinished);
	tcase_add_test(tests, does_without);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}

/* SPDX-License-Identifier: MIT */
/*
 * Peer records: made, copied, found; forged, short, stale, of other users; owners that die, fork,
 * close everything.
 */
#include "tests/unit/state_directory.h"

#include <stdarg.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "core/base/clock.h"
#include "core/peers/peer.h"
#include "core/peers/peers.h"
#include "core/config/config.h"
#include "tests/unit/suite.h"

#define UUID   "GPU-7370696c-6c77-6179-2073-6f6674677000"
#define SECOND "GPU-7370696c-6c77-6179-2073-6f6674677001"
#define OTHER  UINT32_C(12345) /* a user */

static char node[560], message[1024];
static struct peer_own own;
static struct peers others;

static void setup(void)
{
	setenv("TMPDIR", "/dev/shm", 1); /* in memory, as the node's directory is */
	state_directory_make();
	snprintf(node, sizeof node, "%s/node", state_directory);
	ck_assert_int_eq(mkdir(node, 0700), 0);
	ck_assert_int_eq(chmod(node, 01777), 0);
	own = (struct peer_own){0};
	peers_start(&others, node, state_directory, UUID, 0);
}

static int files_in(const char *path, bool removes)
{
	DIR *directory = opendir(path);
	int count = 0;

	for (struct dirent *entry; directory && (entry = readdir(directory));) {
		if (strncmp(entry->d_name, "card-", 5) != 0)
			continue;
		count++;
		if (removes)
			unlinkat(dirfd(directory), entry->d_name, 0);
	}
	if (directory)
		closedir(directory);
	return count;
}

static void forget_all(void)
{
	while (others.count)
		close(others.other[--others.count].fd);
}

static void teardown(void)
{
	forget_all();
	files_in(node, true);
	rmdir(node);
	state_directory_remove();
}

static void make(struct peer_own *record, const char *uuid)
{
	ck_assert_msg(peer_make(record, node, uuid, message, sizeof message) == 0, "%s", message);
}

static void remove_record(struct peer_own *record)
{
	peer_remove(record, &DEADLINE_IN(1000000000));
}

static int look(void)
{
	return peers_look(&others, clock_now());
}

/* What one says the other reads, also later, and no other device's reader does. */
START_TEST(what_is_said_is_read)
{
	static struct peers elsewhere;

	ck_assert_int_eq(look(), 0);
	make(&own, UUID);
	struct peer_record *record = peer_edit(&own);
	record->launches = 7;
	record->claim = 1 << 20;
	peer_publish(&own, clock_now());
	ck_assert_int_eq(look(), 1);
	ck_assert_uint_eq(others.other[0].record.launches, 7);
	ck_assert_uint_eq(others.other[0].record.claim, 1 << 20);
	ck_assert_int_eq(others.other[0].record.pid, getpid());
	ck_assert_uint_eq(others.other[0].owner, geteuid());
	ck_assert(!others.other[0].is_silent);

	record = peer_edit(&own);
	record->launches = 8;
	peer_publish(&own, clock_now());
	ck_assert_int_eq(peers_copy(&others, clock_now()), 1);
	ck_assert_uint_eq(others.other[0].record.launches, 8);

	peers_start(&elsewhere, node, state_directory, SECOND, 0);
	ck_assert_int_eq(peers_look(&elsewhere, clock_now()), 0);
	others.own_token = own.place.token;
	forget_all();
	ck_assert_int_eq(look(), 0);
	remove_record(&own);
	ck_assert_int_eq(files_in(node, false), 0);
}
END_TEST

static bool is_nobody(uid_t owner)
{
	(void)owner;
	return false;
}

static bool is_this_user(uid_t owner)
{
	return owner == geteuid();
}

/* Other processes act on a peer record at once: its first writing has the content of own->now. */
START_TEST(the_first_writing_has_its_content)
{
	own.now.turn = TURN_EXCLUSIVE;
	own.now.limit = 1 << 20;
	make(&own, UUID);
	ck_assert_int_eq(look(), 1);
	ck_assert_uint_eq(others.other[0].record.sequence, 1);
	ck_assert_uint_eq(others.other[0].record.turn, TURN_EXCLUSIVE);
	ck_assert_uint_eq(others.other[0].record.limit, 1 << 20);
	remove_record(&own);
}
END_TEST

/* Who may not be of the highest priority is taken for one below, whatever the peer record says. */
START_TEST(a_priority_is_judged_by_whose_it_is)
{
	make(&own, UUID);
	peer_edit(&own)->priority = 7;
	peer_publish(&own, clock_now());
	peers_judge(is_nobody, 2);
	ck_assert_int_eq(look(), 1);
	ck_assert_uint_eq(others.other[0].record.priority, 1);
	ck_assert_int_eq(peers_copy(&others, clock_now()), 1);
	ck_assert_uint_eq(others.other[0].record.priority, 1);
	peers_judge(is_this_user, 2);
	ck_assert_int_eq(peers_copy(&others, clock_now()), 1);
	ck_assert_uint_eq(others.other[0].record.priority, 7);
	peers_judge(NULL, 0);
	remove_record(&own);
}
END_TEST

/* Whose process has stopped is silent, and stays; who has the lock and beats again is not. */
START_TEST(who_is_silent_is_known)
{
	make(&own, UUID);
	ck_assert_int_eq(peers_look(&others, own.now.beat_ns + PEER_SILENT_NS + 1), 1);
	ck_assert(others.other[0].is_silent);
	peer_poll(&own, own.now.beat_ns + PEER_SILENT_NS + 1);
	ck_assert_int_eq(peers_copy(&others, own.now.beat_ns + 5), 1);
	ck_assert(!others.other[0].is_silent);
	remove_record(&own);
}
END_TEST

static void be_owner(void *argument)
{
	(void)argument;
	make(&own, UUID);
}

/* Who comes is seen by a copy, because the directory has changed; but not by every copy. */
START_TEST(who_comes_is_seen_by_a_copy)
{
	ck_assert_int_eq(look(), 0);
	make(&own, UUID);
	ck_assert_int_eq(peers_copy(&others, others.looked_ns + 9999999), 0);
	ck_assert_int_eq(peers_copy(&others, others.looked_ns + 10000000), 1);
	pause_ms(60);
	/* What changed long ago is gone through once more, and then no more. */
	peers_copy(&others, others.looked_ns + 10000000);
	uint64_t looked = others.looked_ns;

	ck_assert_int_eq(peers_copy(&others, looked + 10000000), 1);
	ck_assert_uint_eq(others.looked_ns, looked);
	remove_record(&own);
	ck_assert_int_eq(peers_copy(&others, looked + 10000000), 0);
}
END_TEST

/*
 * A killed owner is gone at the next copy, and its peer record is swept, also in a folder that has
 * not changed for long.
 */
START_TEST(who_is_killed_is_gone_at_once)
{
	pid_t pid = child_start(be_owner, NULL);

	pause_ms(60);
	ck_assert_int_eq(peers_look(&others, others.listing.next_ns + clock_now()), 1);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(peers_copy(&others, others.looked_ns), 0);
	ck_assert_int_eq(files_in(node, false), 1);
	ck_assert_int_eq(peers_look(&others, others.listing.next_ns + clock_now()), 0);
	ck_assert_int_eq(files_in(node, false), 0);
}
END_TEST

/*
 * A sweep of a directory removes the peer records of the dead, of any device, and leaves those of
 * who lives and what is no peer record.
 */
START_TEST(a_sweep_removes_the_dead_s)
{
	static struct peer_own second;
	pid_t pid = child_start(be_owner, NULL);
	char path[640];

	make(&second, SECOND);
	snprintf(path, sizeof path, "%s/card-" UUID "-%u-x", node, (unsigned)geteuid());
	close(open(path, O_CREAT | O_WRONLY, 0600));
	peers_sweep(node, clock_now());
	ck_assert_int_eq(files_in(node, false), 3);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	peers_sweep(node, clock_now());
	ck_assert_int_eq(files_in(node, false), 2);
	ck_assert_int_eq(access(second.place.path, F_OK), 0);
	ck_assert_int_eq(access(path, F_OK), 0);
	remove_record(&second);
	peers_sweep("/nowhere", clock_now());
}
END_TEST

static void fork_and_die(void *argument)
{
	be_owner(argument);
	if (fork() == 0) {
		peer_forked(&own);
		peer_publish((peer_edit(&own), &own), 1); /* goes nowhere */
		sleep(5);
		_exit(0);
	}
}

/* A forked child does not keep its parent's peer record locked, nor writes there. */
START_TEST(a_child_keeps_nothing)
{
	pid_t pid = child_start(fork_and_die, NULL);

	pause_ms(50);
	ck_assert_int_eq(look(), 1);
	ck_assert_uint_ne(others.other[0].record.beat_ns, 1);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	for (int i = 0; i < 100 && peers_copy(&others, clock_now()); i++)
		pause_ms(10); /* the child may not have run before */
	ck_assert_int_eq(others.count, 0);
}
END_TEST

/*
 * No descriptor of the own peer record is left for the program to close; one that was removed is
 * made anew.
 */
START_TEST(a_record_outlives_its_descriptors)
{
	int next = dup(0);

	close(next);
	make(&own, UUID);
	ck_assert_int_eq(dup(0), next); /* none is left to be closed */
	close(next);
	ck_assert_int_eq(look(), 1);
	uint64_t token = others.other[0].token;

	ck_assert_int_eq(files_in(node, true), 1);
	peer_poll(&own, clock_now());
	ck_assert_int_eq(look(), 1);
	ck_assert_uint_ne(others.other[0].token, token);
	remove_record(&own);
	ck_assert_int_eq(look(), 0);
}
END_TEST

/* A reader's descriptors that the program closed and gave to something else are left alone. */
START_TEST(a_reader_s_closed_descriptor_is_let_be)
{
	int number, fd;

	make(&own, UUID);
	ck_assert_int_eq(look(), 1);
	number = others.other[0].fd;
	close(number);
	fd = open("/dev/zero", O_RDWR);
	if (fd != number)
		ck_assert_int_eq(dup2(fd, number), number);
	ck_assert_int_eq(peers_copy(&others, others.looked_ns), 0);
	ck_assert_int_eq(fcntl(number, F_GETFL) & O_ACCMODE, O_RDWR);
	ck_assert_int_eq(look(), 1);
	remove_record(&own);
}
END_TEST

/* --- what somebody else puts there --- */

/* Writes bytes as a peer record of this user and token. Returns a descriptor. */
static int put(const void *bytes, size_t size, uid_t says, uid_t owner, uint64_t token)
{
	char path[700];
	int fd;

	snprintf(path, sizeof path, "%s/card-" UUID "-%u-%016llx", node, (unsigned)says,
	         (unsigned long long)token);
	fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0644);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
	if (owner != geteuid())
		ck_assert_int_eq(fchown(fd, owner, (gid_t)-1), 0);
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &all), 0);
	return fd;
}

static struct peer_record whole(uint64_t token)
{
	struct peer_record record = {
	    .version = PEER_VERSION,
	    .size = PEER_SIZE,
	    .token = token,
	    .device = peer_device(UUID),
	    .beat_ns = clock_now(),
	    .is_locked = 1,
	};

	memcpy(record.magic, "SPILCARD", sizeof record.magic);
	record.check = peer_check(&record);
	return record;
}

START_TEST(what_is_no_record_is_passed_over)
{
	uid_t us = geteuid();
	struct peer_record record = whole(1);
	char path[640];

	close(put(&record, sizeof record, us, us, 1)); /* whole, but nobody holds the lock */
	ck_assert_int_eq(look(), 0);
	record = whole(2);
	put(&record, sizeof record, us, us, 2);
	ck_assert_int_eq(look(), 1);

	put("", 0, us, us, 3);                      /* empty */
	put(&record, sizeof record - 8, us, us, 4); /* short */
	put(&record, sizeof record, us, us, 5);     /* of another token */
	record = whole(6), record.launches++;       /* torn */
	put(&record, sizeof record, us, us, 6);
	record = whole(7), record.version++;
	record.check = peer_check(&record);
	put(&record, sizeof record, us, us, 7);
	record = whole(8), record.device++; /* of another device */
	record.check = peer_check(&record);
	put(&record, sizeof record, us, us, 8);
	record = whole(9);
	put(&record, sizeof record, us + 1, us, 9); /* in somebody's name */
	record = whole(10);
	int fd = put(&record, sizeof record, us, us, 10); /* it has another name, too */
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	char second[640];
	snprintf(second, sizeof second, "%s/card-" UUID "-%u-%016x", node, (unsigned)us, 11);
	ck_assert_int_eq(linkat(AT_FDCWD, path, AT_FDCWD, second, AT_SYMLINK_FOLLOW), 0);
	snprintf(second, sizeof second, "%s/card-" UUID "-%u-%016x", node, (unsigned)us, 12);
	ck_assert_int_eq(symlink("/dev/zero", second), 0);
	snprintf(second, sizeof second, "%s/card-" UUID "-%u-%016x", node, (unsigned)us, 13);
	ck_assert_int_eq(mkfifo(second, 0644), 0);
	snprintf(second, sizeof second, "%s/card-" UUID "-%u-x", node, (unsigned)us);
	ck_assert_int_eq(mkdir(second, 0755), 0);
	ck_assert_int_eq(look(), 1);
	ck_assert_uint_eq(others.other[0].record.token, 2);
	rmdir(second);
}
END_TEST

/*
 * A peer record that is cut short, or whose words are changed without the check, is not believed.
 */
START_TEST(what_becomes_bad_is_not_believed)
{
	uid_t us = geteuid();
	struct peer_record record = whole(1);
	int fd = put(&record, sizeof record, us, us, 1);

	ck_assert_int_eq(look(), 1);
	record.launches = 9;
	ck_assert_int_eq(pwrite(fd, &record, sizeof record, 0), (ssize_t)sizeof record);
	ck_assert_int_eq(look(), 1); /* its owner may have been stopped in the middle */
	ck_assert_uint_eq(others.other[0].record.launches, 0);
	ck_assert_int_eq(ftruncate(fd, 8), 0);
	ck_assert_int_eq(peers_copy(&others, clock_now()), 0);
	close(fd);
}
END_TEST

/* Without locks only the beat says whether somebody lives. */
START_TEST(without_locks_the_beat_tells)
{
	uid_t us = geteuid();
	struct peer_record record = whole(1);

	record.is_locked = 0;
	record.check = peer_check(&record);
	close(put(&record, sizeof record, us, us, 1));
	ck_assert_int_eq(peers_look(&others, record.beat_ns + 1), 1);
	ck_assert_int_eq(peers_copy(&others, record.beat_ns + PEER_SILENT_NS + 1), 0);
}
END_TEST

/* Other users, however many peer records they have, leave room for one's own. */
START_TEST(other_users_are_bounded)
{
	int fds[PEERS_MAX + 8], count = 0;

	if (geteuid() != 0)
		return; /* only root can play other users */
	for (int user = 0; user < 4; user++)
		for (int i = 0; i < PEERS_OF_OTHER_USER + 2; i++, count++) {
			uint64_t token = 100 * (uint64_t)(user + 1) + (uint64_t)i;
			struct peer_record record = whole(token);
			uid_t owner = OTHER + (uid_t)user;

			if (count < (int)(sizeof fds / sizeof *fds))
				fds[count] = put(&record, sizeof record, owner, owner, token);
		}
	make(&own, UUID);
	ck_assert_int_eq(look(), PEERS_OF_OTHER_USERS + 1);
	int of_first = 0;
	for (int i = 0; i < others.count; i++)
		of_first += others.other[i].owner == OTHER;
	ck_assert_int_le(of_first, PEERS_OF_OTHER_USER);
	remove_record(&own);
}
END_TEST

/* Where the node's directory cannot be written to, one user's jobs meet in his own. */
START_TEST(without_the_node_s_directory_one_user_s_jobs_meet)
{
	ck_assert_int_eq(rmdir(node), 0);
	make(&own, UUID);
	ck_assert_int_eq(files_in(state_directory, false), 1);
	ck_assert_int_eq(look(), 1);
	remove_record(&own);
	ck_assert_int_eq(look(), 0);
	ck_assert_int_eq(peer_make(&own, node, "../x", message, sizeof message), -EINVAL);
}
END_TEST

static _Atomic bool stop_writing;

static void *keep_writing(void *argument)
{
	(void)argument;
	for (uint64_t i = 1; !atomic_load(&stop_writing); i++) {
		struct peer_record *record = peer_edit(&own);

		record->launches = record->claim = record->link = i;
		peer_publish(&own, clock_now());
	}
	return NULL;
}

static void *hold_record(void *step)
{
	peer_edit(&own);
	pthread_barrier_wait(step);
	pthread_barrier_wait(step);
	peer_publish(&own, clock_now());
	return NULL;
}

/* A signal handler that exits does not wait for the peer record that its thread was writing. */
static uint64_t virtual_ns = 1000000000;

/* A clock by which each look at it takes a millisecond, as a listing takes two. */
static uint64_t ticking_now(void)
{
	return virtual_ns += 1000000;
}

/* A crowd in a directory that changes all the time is read by duty, and hides no peer record. */
START_TEST(a_crowd_is_read_by_duty)
{
	const struct clock ticking = {ticking_now, clock_of_kernel.wait, clock_of_kernel.wake};
	uint64_t began, looked = 0;
	int looks = 0;
	char path[640];

	for (int i = 0; i < 3 * LISTING_SMALL; i++) {
		snprintf(path, sizeof path, "%s/card-%s-%u-%016x", node, UUID, OTHER, i + 1);
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
	make(&own, UUID);
	clock_in_use = &ticking;
	for (began = virtual_ns; virtual_ns - began < 4000000000u; virtual_ns += 10000000) {
		snprintf(path, sizeof path, "%s/touch", node);
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
		unlink(path);
		ck_assert_int_eq(peers_look(&others, virtual_ns), 1);
		looks += others.listing.next_ns != looked;
		looked = others.listing.next_ns;
	}
	clock_in_use = &clock_of_kernel;
	/* Two directories take 2 ms, and the next look comes 800 ms later. */
	printf("%d looks in 4 s\n", looks);
	ck_assert_int_ge(looks, 4);
	ck_assert_int_le(looks, 6);
	for (int i = 0; i < 3 * LISTING_SMALL; i++) {
		snprintf(path, sizeof path, "%s/card-%s-%u-%016x", node, UUID, OTHER, i + 1);
		unlink(path);
	}
}
END_TEST

/* A clock of a machine that takes no time to list anything. */
static uint64_t standing_now(void)
{
	return virtual_ns;
}

enum { CROWD = 1500 };

/* Makes a crowd of files of OTHER, in names of that user and of ours by turns. */
static void make_crowd(void)
{
	for (uint64_t i = 1; i <= CROWD; i++)
		close(put("", 0, i % 2 ? OTHER : geteuid(), OTHER, i));
}

static int files_opened;

int __real_openat(int directory, const char *name, int flags, ...);
int __wrap_openat(int directory, const char *name, int flags, ...);

int __wrap_openat(int directory, const char *name, int flags, ...)
{
	mode_t mode;
	va_list more;

	va_start(more, flags);
	mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
	va_end(more);
	files_opened += strncmp(name, "card-", 5) == 0;
	return __real_openat(directory, name, flags, mode);
}

/* However fast the machine is, so many names a second are read, and few files are opened. */
START_TEST(a_crowd_is_read_by_count)
{
	const struct clock standing = {standing_now, clock_of_kernel.wait, clock_of_kernel.wake};
	uint64_t looked = 0, glanced = 0, names = 0, opened_before;
	const int seconds = 4;
	int looks = 0;

	if (geteuid() != 0)
		return; /* only root can play other users */
	make_crowd();
	make(&own, UUID);
	files_opened = 0;
	ck_assert_int_eq(peers_look(&others, virtual_ns), 1);
	ck_assert_int_le(files_opened, PEERS_TRIED + 1);
	opened_before = (uint64_t)files_opened;
	clock_in_use = &standing;
	others.listing = (struct listing){.is_counted = true};
	for (int i = 0; i < seconds * 1000; i++, virtual_ns += 1000000) {
		ck_assert_int_eq(peers_look(&others, virtual_ns), 1);
		if (others.listing.next_ns != looked) {
			names += (uint64_t)others.listing.entries;
			looks++;
		}
		names += others.listing.glance_ns != glanced ? LISTING_SMALL : 0;
		looked = others.listing.next_ns;
		glanced = others.listing.glance_ns;
	}
	clock_in_use = &clock_of_kernel;
	printf("%d looks, %llu names a second, %llu files opened at the first\n", looks,
	       (unsigned long long)names / seconds, (unsigned long long)opened_before);
	ck_assert_uint_ge(looks, 10);
	ck_assert_uint_le(names, (uint64_t)seconds * LISTING_A_SECOND + 2 * CROWD);
	remove_record(&own);
}
END_TEST

/* The log has a line about a crowd, however often it is read. */
START_TEST(a_crowd_is_logged_once)
{
	int lines = 0, stderr_before = dup(STDERR_FILENO);
	FILE *said = tmpfile();
	char path[640], line[1024];

	for (int i = 0; i < LISTING_CROWD + 1; i++) {
		snprintf(path, sizeof path, "%s/card-%d", node, i);
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
	dup2(fileno(said), STDERR_FILENO);
	for (int i = 0; i < 3; i++) {
		others.listing = (struct listing){.is_counted = true};
		others.has_unmet = true;
		peers_look(&others, clock_now());
	}
	peers_sweep(node, clock_now());
	dup2(stderr_before, STDERR_FILENO);
	rewind(said);
	while (fgets(line, sizeof line, said))
		lines += strstr(line, "files, most of user ") != NULL;
	fclose(said);
	ck_assert_int_eq(lines, 1);
}
END_TEST

static bool note_first(void *first, int directory, const char *name)
{
	(void)directory;
	snprintf(first, 64, "%s", name);
	return *name == '.';
}

/* Where the newest names come first, a job is met at once in any crowd. */
START_TEST(who_comes_into_a_crowd_is_met_at_once)
{
	const struct clock standing = {standing_now, clock_of_kernel.wait, clock_of_kernel.wake};
	char first[64] = "", path[640];

	if (geteuid() != 0)
		return; /* only root can play other users */
	make_crowd();
	snprintf(path, sizeof path, "%s/newest", node);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	listing_read_path(node, note_first, first);
	unlink(path);
	clock_in_use = &standing;
	ck_assert_int_eq(peers_look(&others, virtual_ns), 0);
	virtual_ns += 20000000; /* a glance is due, and no look for a time to come */
	ck_assert_uint_gt(others.listing.next_ns, virtual_ns);
	make(&own, UUID);
	if (strcmp(first, "newest") == 0)
		ck_assert_int_eq(peers_look(&others, virtual_ns), 1);
	clock_in_use = &clock_of_kernel;
	remove_record(&own);
}
END_TEST

START_TEST(who_exits_waits_no_longer_than_it_may)
{
	pthread_t holder;
	pthread_barrier_t step;

	make(&own, UUID);
	ck_assert_int_eq(pthread_barrier_init(&step, NULL, 2), 0);
	ck_assert_int_eq(pthread_create(&holder, NULL, hold_record, &step), 0);
	pthread_barrier_wait(&step);
	peer_remove(&own, &DEADLINE_IN(1000000));
	ck_assert_int_eq(files_in(node, false), 1);
	pthread_barrier_wait(&step);
	pthread_join(holder, NULL);
	remove_record(&own);
	ck_assert_int_eq(files_in(node, false), 0);
}
END_TEST

/* No copy is torn, however fast the owner writes. */
START_TEST(copies_are_whole)
{
	pthread_t writer;
	uint64_t last = 0;

	make(&own, UUID);
	ck_assert_int_eq(look(), 1);
	ck_assert_int_eq(pthread_create(&writer, NULL, keep_writing, NULL), 0);
	for (int i = 0; i < 20000; i++) {
		ck_assert_int_eq(peers_copy(&others, clock_now()), 1);
		const struct peer_record *record = &others.other[0].record;
		ck_assert_uint_eq(record->launches, record->claim);
		ck_assert_uint_eq(record->launches, record->link);
		ck_assert_uint_ge(record->launches, last);
		last = record->launches;
	}
	atomic_store(&stop_writing, true);
	pthread_join(writer, NULL);
	remove_record(&own);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("peers");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, what_is_said_is_read);
	tcase_add_test(tests, the_first_writing_has_its_content);
	tcase_add_test(tests, a_priority_is_judged_by_whose_it_is);
	tcase_add_test(tests, who_is_silent_is_known);
	tcase_add_test(tests, who_comes_is_seen_by_a_copy);
	tcase_add_test(tests, who_is_killed_is_gone_at_once);
	tcase_add_test(tests, a_sweep_removes_the_dead_s);
	tcase_add_test(tests, a_child_keeps_nothing);
	tcase_add_test(tests, a_record_outlives_its_descriptors);
	tcase_add_test(tests, a_reader_s_closed_descriptor_is_let_be);
	tcase_add_test(tests, what_is_no_record_is_passed_over);
	tcase_add_test(tests, what_becomes_bad_is_not_believed);
	tcase_add_test(tests, without_locks_the_beat_tells);
	tcase_add_test(tests, other_users_are_bounded);
	tcase_add_test(tests, without_the_node_s_directory_one_user_s_jobs_meet);
	tcase_add_test(tests, a_crowd_is_read_by_duty);
	tcase_add_test(tests, a_crowd_is_read_by_count);
	tcase_add_test(tests, a_crowd_is_logged_once);
	tcase_add_test(tests, who_comes_into_a_crowd_is_met_at_once);
	tcase_add_test(tests, who_exits_waits_no_longer_than_it_may);
	tcase_add_test(tests, copies_are_whole);
	return suite_run("peers", tests);
}

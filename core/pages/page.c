/* SPDX-License-Identifier: MIT */
/*
 * Pages: writing one's own, and reading those of all users.
 *
 * Runs inside the user's process, on the helper thread: a file is new, complete and then renamed.
 * Files of other users are never followed, mapped, waited for or removed. Of a page that is read
 * only the file's owner is sure. page_withdraw() runs on any thread that exits, in a signal handler
 * perhaps: no lock, no allocation.
 */
#include "core/pages/page.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/base/printable.h"
#include "core/base/shared_file.h"
#include "core/state/directory.h"
#include "core/state/layout.h"
#include "core/state/listing.h"

/* Counts the files of each user that were met among the pages of a node. Private to page.c. */

/* Counts the files of one user that were met. */
struct page_owner {
	uid_t uid;
	int pages, refused;
};

/* A table of the users that have any, by uid, never more than half full. */
struct page_owners {
	struct page_owner *of;
	uint32_t size, used;    /* size: a power of two */
	struct page_owner none; /* where there is no memory for more, they share one */
};

static bool page_is_met(const struct page_owner *owner)
{
	return owner->pages + owner->refused > 0;
}

static struct page_owner *page_place_of(struct page_owner *of, uint32_t size, uid_t uid)
{
	uint32_t at = (uint32_t)uid * 2654435761u;
	while (page_is_met(&of[at & (size - 1)]) && of[at & (size - 1)].uid != uid)
		at++;
	return &of[at & (size - 1)];
}

static bool page_grow(struct page_owners *owners)
{
	uint32_t size = owners->size ? 2 * owners->size : 64;
	struct page_owner *of = calloc(size, sizeof *of);
	if (!of)
		return false;
	for (uint32_t i = 0; i < owners->size; i++)
		if (page_is_met(&owners->of[i]))
			*page_place_of(of, size, owners->of[i].uid) = owners->of[i];
	free(owners->of);
	owners->of = of;
	owners->size = size;
	return true;
}

/*
 * Returns the count of this user, and enters the user into the table: the caller counts something
 * of this user.
 */
static struct page_owner *page_owner_of(struct page_owners *owners, uid_t uid)
{
	if (2 * owners->used >= owners->size && !page_grow(owners))
		return &owners->none;
	struct page_owner *owner = page_place_of(owners->of, owners->size, uid);
	owners->used += !page_is_met(owner);
	owner->uid = uid;
	return owner;
}

#define PAGE_MAGIC "SPILPAGE"
static const struct shared_format page_format = {
    .magic = PAGE_MAGIC, .version = PAGE_VERSION, .size = sizeof(struct page)};

#define ENDING     ".page"
#define UNFINISHED ".page-"

enum { NAME_SIZE = 128, NUMBER_TRIES = 2, WITHDRAW_NS = 50000000, WITHDRAW_LOOK_NS = 1000000 };

static_assert(sizeof(struct page_device) == 176, "layout changed: raise PAGE_VERSION");
static_assert(sizeof(struct page) == 3664, "layout changed: raise PAGE_VERSION");
static_assert(offsetof(struct page, device) == 848, "layout changed: raise PAGE_VERSION");

static void page_name_of(uid_t owner, const char *job, uint64_t number, char name[NAME_SIZE])
{
	snprintf(name, NAME_SIZE, "job-%u-%s-%016llx" ENDING, (unsigned)owner, job,
	         (unsigned long long)number);
}

/* Returns a random number, never 0. */
static uint64_t page_random_number(void)
{
	uint64_t number = 0;
	if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
		number = clock_of_day() ^ (uint64_t)getpid() << 48;
	return number ? number : 1;
}

static bool page_is_name(const char *name)
{
	size_t length = strlen(name), tail = sizeof ENDING - 1;
	return length > tail && strncmp(name, "job-", 4) == 0 &&
	       strcmp(name + length - tail, ENDING) == 0;
}

static int page_open_directory(const char *path)
{
	return path[0] == '/' ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

/* --- the writer --- */

static uint64_t own_pid_namespace(void)
{
	struct stat found;
	return file_status("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

/* Returns when a process started; no other of this number did so then. 0: not known. */
static uint64_t started_at(pid_t pid)
{
	enum { FIELDS = 20 }; /* from behind the command, in parentheses, to the time */
	char path[32], line[512];

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	size_t length = segment_read_line(path, line, sizeof line - 1);
	line[length] = '\0';
	const char *at = strrchr(line, ')');
	for (int field = 0; at && field < FIELDS; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* --- reading --- */

static bool page_is_valid(const struct page *page)
{
	if (!is_printable(page->job, sizeof page->job) || directory_check_name(page->job) != 0 ||
	    !is_printable(page->boot_id, sizeof page->boot_id) ||
	    !is_printable(page->labels, sizeof page->labels) ||
	    !is_printable(page->directory, sizeof page->directory) ||
	    page->device_count > SEGMENT_DEVICES || page->processes > SEGMENT_SLOTS)
		return false;
	for (uint32_t i = 0; i < page->device_count; i++) {
		const struct segment_device *device = &page->device[i].device;
		if (!is_printable(device->uuid, sizeof device->uuid) ||
		    !is_printable(device->pci_bus_id, sizeof device->pci_bus_id) ||
		    !is_printable(device->name, sizeof device->name))
			return false;
	}
	return true;
}

static int page_check(const struct page *page, ssize_t length, off_t file_size, char *why,
                      size_t size)
{
	enum shared_fit fit = SHARED_OTHER_KIND;

	if (length >= (ssize_t)offsetof(struct page, boot_id))
		fit = shared_file_fits(&page_format, page, page->size);
	if (fit == SHARED_OTHER_KIND)
		return state_refuse(-EPROTO, why, size, "not a page");
	if (fit == SHARED_OTHER_VERSION)
		return state_refuse(-EPROTO, why, size, "page of version %u, expected version %d",
		                    page->version, PAGE_VERSION);
	if (length != (ssize_t)sizeof *page || file_size != (off_t)sizeof *page ||
	    fit == SHARED_OTHER_SIZE)
		return state_refuse(-EPROTO, why, size, "page of %lld bytes, expected %zu",
		                    (long long)file_size, sizeof *page);
	if (!page_is_valid(page))
		return state_refuse(-EPROTO, why, size, "page is damaged");
	return 0;
}

/*
 * Reads NAME in the node's directory, given by its descriptor, and checks it. 0, or a negative
 * errno and why: -EPROTO not a page, or of another version.
 */
static int page_read(int directory, const char *name, struct page *page, uid_t *owner, char *why,
                     size_t size)
{
	char expected[NAME_SIZE];
	struct stat found;
	/* NONBLOCK: it might be a pipe */
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		int error = -errno;
		return state_refuse(error, why, size, "%s", strerror(-error));
	}
	memset(page, 0, sizeof *page);
	int error = file_status_of(fd, &found) != 0 ? -errno : S_ISREG(found.st_mode) ? 0 : -EPROTO;
	ssize_t length = error ? -1 : pread(fd, page, sizeof *page, 0);
	if (!error && length < 0)
		error = -errno;
	close(fd);
	if (error)
		return state_refuse(error, why, size, "%s",
		                    error == -EPROTO ? "not a page" : strerror(-error));
	error = page_check(page, length, found.st_size, why, size);
	if (error)
		return error;
	/* a second name of a page would be a second job */
	page_name_of(found.st_uid, page->job, page->number, expected);
	if (strcmp(name, expected) != 0)
		return state_refuse(-EPROTO, why, size, "page of another name");
	*owner = found.st_uid;
	return 0;
}

/* --- whether it is still true --- */

/* Returns 1: the writer lives, 0: it is dead, -1: that cannot be told from here. */
static int writer_lives(const struct page *page)
{
	if (!page->pid_namespace || page->pid_namespace != own_pid_namespace() || page->pid <= 0)
		return -1;
	uint64_t started = page->pid_started ? started_at(page->pid) : 0;
	if (started)
		return started == page->pid_started;
	return kill(page->pid, 0) != 0 && errno == ESRCH ? 0 : -1;
}

/* Returns whether the page's job still runs, as far as can be told from here. */
static bool page_lives(const struct page *page)
{
	char boot_id[SEGMENT_BOOT_ID_MAX];
	segment_read_boot_id(boot_id);
	if (boot_id[0] && strcmp(boot_id, page->boot_id) != 0)
		return false;
	int writer = writer_lives(page);
	if (writer == 1)
		return true;
	if (writer == 0 && page->processes <= 1)
		return false;
	uint64_t now = clock_now();
	return page->written_ns <= now && now - page->written_ns < PAGE_STALE_NS;
}

/* --- going through them --- */

/*
 * Reads one that has a page's name, unless its owner has had his part. Returns 0 or a negative
 * errno and why.
 */
static int page_look(int directory, const char *name, struct page_owners *owners,
                     struct page_found *found, char *why, size_t size)
{
	struct stat status;
	if (file_status_at(directory, name, &status) != 0)
		return -errno;
	struct page_owner *owner = page_owner_of(owners, status.st_uid);
	if (owner->pages >= PAGE_OF_OWNER_MAX || owner->refused >= PAGE_OF_OWNER_MAX) {
		owner->refused++;
		return state_refuse(-EMFILE, why, size, "user %u has more than %d",
		                    (unsigned)status.st_uid, PAGE_OF_OWNER_MAX);
	}
	int error = page_read(directory, name, &found->page, &found->owner, why, size);
	/* another user's by now, not the counted one */
	if (!error && found->owner != status.st_uid)
		error = -ENOENT;
	if (error)
		owner->refused++;
	else
		owner->pages++;
	return error;
}

/*
 * Judges whether the page's job lives. A killed job leaves a page with its last figures: no other
 * process can rewrite it, and its memory has gone with it.
 */
static void page_judge(struct page_found *found)
{
	found->lives = page_lives(&found->page);
	if (found->lives)
		return;
	found->page.processes = 0;
	for (int i = 0; i < SEGMENT_DEVICES; i++)
		memset(found->page.device[i].charged, 0, sizeof found->page.device[i].charged);
}

struct page_listing {
	struct page_found found;
	struct page_owners owners;
	void (*each)(void *cookie, const struct page_found *found);
	void *cookie;
	char *why;
	size_t size;
	int refused;
};

static bool page_list_one(void *cookie, int directory, const char *name)
{
	struct page_listing *listing = cookie;
	char reason[128] = "";
	int error;

	if (!page_is_name(name))
		return true;
	error =
	    page_look(directory, name, &listing->owners, &listing->found, reason, sizeof reason);
	if (error == -ENOENT)
		return true;
	if (error && listing->refused++ == 0)
		state_refuse(error, listing->why, listing->size, "%s: %s", name, reason);
	if (error)
		return true;
	page_judge(&listing->found);
	listing->each(listing->cookie, &listing->found);
	return true;
}

int page_list(void (*each)(void *cookie, const struct page_found *found), void *cookie, char *why,
              size_t size)
{
	struct page_listing listing = {.each = each, .cookie = cookie, .why = why, .size = size};
	char node[PATH_MAX];
	int count =
	    listing_read_path(directory_of_node(node, sizeof node), page_list_one, &listing);

	free(listing.owners.of);
	return count < 0 ? -1 : listing.refused;
}

static bool page_is_stale(const struct stat *found)
{
	return file_status_age(found) > PAGE_STALE_NS / 1000000000;
}

/* Returns whether it is an unfinished file of a killed process of this user. */
static bool is_left_unfinished(int directory, const char *name)
{
	struct stat found;
	return strncmp(name, UNFINISHED, sizeof UNFINISHED - 1) == 0 &&
	       file_status_at(directory, name, &found) == 0 && found.st_uid == geteuid() &&
	       page_is_stale(&found);
}

/*
 * Returns whether a page of another version has been left by its job. Every version begins with
 * magic, version, size and the boot's id, and writes again long before a page is stale. A job that
 * was stopped for so long writes its page anew when it goes on.
 */
static bool page_is_left_of_other_version(int directory, const char *name, const struct stat *found)
{
	char boot_id[SEGMENT_BOOT_ID_MAX];
	struct page page;
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : pread(fd, &page, sizeof page, 0);

	if (fd >= 0)
		close(fd);
	if (length < (ssize_t)offsetof(struct page, token) ||
	    shared_file_fits(&page_format, &page, page.size) != SHARED_OTHER_VERSION)
		return false;
	segment_read_boot_id(boot_id);
	return page_is_stale(found) ||
	       (boot_id[0] && strncmp(boot_id, page.boot_id, sizeof boot_id) != 0);
}

struct page_sweep {
	char own[32];
	int removed;
};

/*
 * Removes a page of the user's own whose job has ended, or an unfinished one. A file of another
 * user costs a look at its name.
 */
static bool page_sweep_one(void *cookie, int directory, const char *name)
{
	struct page_sweep *sweep = cookie;
	struct page page = {0};
	struct stat found;
	uid_t owner = 0;

	if (is_left_unfinished(directory, name))
		unlinkat(directory, name, 0);
	if (!page_is_name(name) || strncmp(name, sweep->own, strlen(sweep->own)) != 0 ||
	    file_status_at(directory, name, &found) != 0 || found.st_uid != geteuid())
		return true;
	if (page_read(directory, name, &page, &owner, NULL, 0) == 0
	        ? owner == geteuid() && !page_lives(&page)
	        : page_is_left_of_other_version(directory, name, &found))
		sweep->removed += unlinkat(directory, name, 0) == 0;
	return true;
}

/*
 * Removes the pages of ended jobs of the user, and returns how many. node: as it was when the job
 * was joined, because the environment is the program's.
 */
static int page_do_sweep(const char *node)
{
	struct page_sweep sweeping = {.removed = 0};

	snprintf(sweeping.own, sizeof sweeping.own, "job-%u-", (unsigned)geteuid());
	(void)listing_read_path(node, page_sweep_one, &sweeping);
	return sweeping.removed;
}

int page_sweep(void)
{
	char node[PATH_MAX];
	return page_do_sweep(directory_of_node(node, sizeof node));
}

/* --- writing --- */

static bool slot_is_in_use(const struct segment_file *file, int number)
{
	return slot_is(file->header.live, number) && slot_owner_lives(slot_of(file, number));
}

static void fill_device(const struct segment_file *file, int index, struct page_device *filled)
{
	const struct segment_header *header = &file->header;
	filled->device = header->device[index];
	for (int tier = 0; tier < SEGMENT_TIERS; tier++)
		filled->charged[tier] = quota_charged(file, index, (enum segment_tier)tier);
	for (int n = -1; (n = slots_next(header, n, SLOTS_LIVE)) >= 0;) {
		struct ledger_copy ledger = ledger_read(&books_of(file, n, index)->ledger);
		if (!ledger.facts.limit)
			continue;
		filled->limit = ledger.facts.limit;
		filled->share = ledger.facts.share;
		return;
	}
}

static void page_fill(const struct segment *segment, struct page *page)
{
	const struct segment_file *file = segment->file;
	const struct segment_header *header = &file->header;

	memset(page, 0, sizeof *page);
	shared_file_write_head(&page_format, page);
	page->size = sizeof *page;
	memcpy(page->boot_id, header->boot_id, sizeof page->boot_id);
	page->token = header->token;
	page->number = atomic_load(&header->page_number);
	page->created_ns = header->created_ns;
	page->written_ns = clock_now();
	page->pid = getpid();
	page->pid_namespace = own_pid_namespace();
	page->pid_started = started_at(page->pid);
	for (int n = -1; (n = slots_next(header, n, SLOTS_LIVE)) >= 0;)
		page->processes += slot_is_in_use(file, n);
	segment_copy_text(page->job, sizeof page->job, header->job);
	segment_copy_text(page->labels, sizeof page->labels, header->labels);
	printable(page->labels); /* a page with other labels would not be read */
	segment_copy_text(page->directory, sizeof page->directory, segment->directory);
	page->device_count = atomic_load(&header->device_count);
	for (uint32_t i = 0; i < page->device_count && i < SEGMENT_DEVICES; i++) {
		fill_device(file, (int)i, &page->device[i]);
		page->device[i].host_limit = atomic_load(&segment->host_limit[i]);
	}
}

void page_note_host_limit(struct segment *segment, int device, uint64_t and_one)
{
	atomic_store(&segment->host_limit[device], and_one);
}

/*
 * Returns whether the page already says all of it, and was written lately. A device that this
 * process does not know stays as another process has written it.
 */
static bool page_is_told(int directory, const char *name, struct page *page)
{
	struct page told = {0};
	uid_t owner;

	if (page_read(directory, name, &told, &owner, NULL, 0) != 0)
		return false;
	for (uint32_t i = 0; i < page->device_count; i++)
		if (!page->device[i].host_limit)
			page->device[i].host_limit = told.device[i].host_limit;
	if (page->written_ns - told.written_ns >= PAGE_BEAT_NS)
		return false;
	told.written_ns = page->written_ns;
	told.pid = page->pid;
	told.pid_started = page->pid_started;
	told.pid_namespace = page->pid_namespace;
	return memcmp(&told, page, sizeof told) == 0;
}

/*
 * Writes a page that all users may read, with any umask. Returns false when a file of another user
 * has its name, or there is no room.
 */
static bool write_page(int directory, const char *name, const struct page *page)
{
	char unfinished[NAME_SIZE];

	snprintf(unfinished, sizeof unfinished, UNFINISHED "%016llx",
	         (unsigned long long)page_random_number());
	return shared_file_put(directory, unfinished, name, 0644, page, sizeof *page) == 0;
}

static void remove_own(const struct segment *segment)
{
	const struct segment_header *header = &segment->file->header;
	char name[NAME_SIZE];
	int directory = page_open_directory(segment->node);

	if (directory < 0)
		return;
	page_name_of(geteuid(), header->job, atomic_load(&header->page_number), name);
	unlinkat(directory, name, 0);
	close(directory);
}

static bool others_live(const struct segment *segment)
{
	const struct segment_file *file = segment->file;

	for (int n = -1; (n = slots_next(&file->header, n, SLOTS_LIVE)) >= 0;)
		if (n != segment->number && atomic_load(&slot_of(file, n)->exiting_ns) == 0 &&
		    slot_is_in_use(file, n))
			return true;
	return false;
}

static void page_do_publish(struct segment *segment)
{
	struct segment_header *header = &segment->file->header;
	char name[NAME_SIZE];
	struct page page;
	int directory = page_open_directory(segment->node);

	if (directory < 0)
		return;
	for (int tries = 0; tries < NUMBER_TRIES; tries++) {
		uint64_t number = atomic_load(&header->page_number);
		if (number == 0 || tries > 0)
			atomic_compare_exchange_strong(&header->page_number, &number,
			                               page_random_number());
		page_fill(segment, &page);
		page_name_of(geteuid(), page.job, page.number, name);
		if (page_is_told(directory, name, &page) || write_page(directory, name, &page))
			break;
		/* an old one of the shim's, if it is that: the next has another name */
		unlinkat(directory, name, 0);
	}
	close(directory);
}

/* Returns whether this process is the one of the job that looks after the page now. */
static bool page_is_due(struct segment_header *header)
{
	uint64_t now = clock_now(), last = atomic_load(&header->page_ns);
	return (last == 0 || now - last >= PAGE_CHANGED_NS) &&
	       atomic_compare_exchange_strong(&header->page_ns, &last, now);
}

void page_publish(struct segment *segment)
{
	int resting = PAGE_RESTS, writing = PAGE_WRITING;

	if (!page_is_due(&segment->file->header) ||
	    !atomic_compare_exchange_strong(&segment->page_state, &resting, PAGE_WRITING))
		return;
	if (!segment->has_published) {
		segment->has_published = true;
		page_do_sweep(segment->node);
	}
	page_do_publish(segment);
	if (atomic_compare_exchange_strong(&segment->page_state, &writing, PAGE_RESTS))
		return;
	/* the process exits meanwhile */
	if (!others_live(segment))
		remove_own(segment);
	atomic_store(&segment->page_state, PAGE_GONE);
}

void page_withdraw(struct segment *segment)
{
	bool writes = atomic_exchange(&segment->page_state, PAGE_WITHDRAWN) == PAGE_WRITING;
	struct deadline until = DEADLINE_IN(WITHDRAW_NS);

	if (atomic_load(&segment->file->header.page_ns) == 0 || others_live(segment))
		return;
	while (writes && atomic_load(&segment->page_state) == PAGE_WITHDRAWN &&
	       deadline_nap(&until, WITHDRAW_LOOK_NS))
		;
	remove_own(segment);
}

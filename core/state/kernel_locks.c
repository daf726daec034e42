/* SPDX-License-Identifier: MIT */
/*
 * Reading /proc/locks. Rules: runs inside the user's process, within its calls and on the helper's
 * thread; takes no lock and allocates nothing.
 *
 * Two readers go through the list, half a page apart. Reader A reads a page, then the next one;
 * then reader B reads the page that lies across the boundary between them:
 *
 *     A  |---- page 1 ----|---- page 2 ----|---- page 3 ----|
 *     B  |--------|---- check 2 ---|---- check 3 ---|
 *
 * One read is one snapshot, and locks keep their order in the list for as long as they are held. So
 * a check may have lines of the page before and, behind them, a line of the page after. Then all
 * that is between them is in the check, and nothing was missed at that boundary. Otherwise more
 * locks ended at once than half a page holds, and the list is read again.
 */
#include "core/state/kernel_locks.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"

/*
 * A page that leaves END bytes free is the last one: a line has about 60 bytes. A lock that many
 * wait for has a longer one, with a part for each.
 */
enum { PAGE = 4096, HALF = PAGE / 2, END = PAGE / 4, LINES = 128, TRIES = 3 };

/* --- lines --- */

/* The last two numbers of a line are where its lock begins and ends. */
struct parser {
	uint64_t before, last, now;
	bool is_in_word, is_number;
	bool is_behind_number; /* the line's own number, which changes when a lock ends, is over */
	uint64_t hash;         /* of the rest of the line */
};

/* Whole lines of one read, by their hashes. The rest of a line of the read before is older. */
struct page {
	uint64_t line[LINES];
	int count;
	size_t bytes;
};

static void parser_word(struct parser *p, char c)
{
	if (!p->is_in_word) {
		p->is_in_word = p->is_number = true;
		p->now = 0;
	}
	p->is_number &= c >= '0' && c <= '9' && p->now < UINT64_MAX / 16;
	p->now = p->now * 10 + (uint64_t)(c - '0');
}

/* Returns whether a line ends with this character. */
static bool parser_take(struct parser *p, char c)
{
	bool is_space = c == ' ' || c == '\t' || c == '\n';

	if (p->is_behind_number)
		p->hash = hash_bytes(p->hash, &c, 1);
	if (!is_space) {
		parser_word(p, c);
		return false;
	}
	if (p->is_in_word) {
		p->before = p->last;
		p->last = p->is_number ? p->now : 0;
		p->is_behind_number = true;
	}
	p->is_in_word = false;
	return c == '\n';
}

static void parser_next_line(struct parser *p)
{
	*p = (struct parser){.hash = HASH_NOTHING};
}

static void kernel_locks_parse(struct parser *parser, const char *text, size_t size,
                               kernel_locks_found *found, void *cookie, struct page *page)
{
	bool is_rest = parser->hash != HASH_NOTHING || parser->is_in_word;

	page->count = 0;
	page->bytes = size;
	for (size_t i = 0; i < size; i++) {
		if (!parser_take(parser, text[i]))
			continue;
		found(cookie, parser->before, parser->last);
		if (!is_rest && page->count < LINES)
			page->line[page->count++] = parser->hash;
		is_rest = false;
		parser_next_line(parser);
	}
}

/* Returns where the line is in the page; -1: it is not, or more than once. */
static int page_find(const struct page *page, uint64_t line)
{
	int at = -1;

	for (int i = 0; i < page->count; i++) {
		if (page->line[i] != line)
			continue;
		if (at >= 0)
			return -1;
		at = i;
	}
	return at;
}

static bool page_is_last(const struct page *page)
{
	return page->bytes <= PAGE - END;
}

/*
 * Returns how many lines of the check a page has, in the page's order, from *at on; two are enough,
 * and *at is behind the second. One would not do: two descriptors of one file may have lines that
 * are alike, and the one may have come while the other went.
 */
static int page_share(const struct page *page, const struct page *check, int *at)
{
	int last = -1, shared = 0;

	for (; *at < check->count && shared < 2; ++*at) {
		int found = page_find(page, check->line[*at]);

		if (found <= last)
			continue;
		last = found;
		shared++;
	}
	return shared;
}

/* Returns whether nothing is missing between the two pages of A, by the check across them. */
static bool is_bridged(const struct page *page, const struct page *next, const struct page *check)
{
	int at = 0;

	return page_share(page, check, &at) == 2 &&
	       (page_is_last(check) || page_share(next, check, &at) == 2);
}

/* --- the list --- */

/* Reads as read(2) does, by reader A (0) or B (1). */
typedef ssize_t list_reader(void *source, int reader, char *text, size_t size);

struct list {
	list_reader *read;
	void *source;
	kernel_locks_found *found;
	void *cookie;
	struct parser parser[2]; /* of reader A and reader B */
};

/* Reads a page into *page. Returns whether that worked; a page of 0 bytes is behind the end. */
static bool list_read(struct list *list, int reader, size_t size, struct page *page)
{
	char text[PAGE];
	ssize_t length = list->read(list->source, reader, text, size);

	if (length < 0)
		return false;
	kernel_locks_parse(&list->parser[reader], text, (size_t)length, list->found, list->cookie,
	                   page);
	return true;
}

static enum kernel_locks_read list_walk(struct list *list, int pages)
{
	struct page page[2], check;

	for (int reader = 0; reader < 2; reader++)
		parser_next_line(&list->parser[reader]);
	if (!list_read(list, 0, PAGE, &page[0]))
		return KERNEL_LOCKS_IN_DOUBT;
	if (page_is_last(&page[0]))
		return KERNEL_LOCKS_WHOLE;
	if (!list_read(list, 1, HALF, &check))
		return KERNEL_LOCKS_IN_DOUBT;
	for (int i = 1; i < pages; i++) {
		struct page *before = &page[(i - 1) % 2], *now = &page[i % 2];

		if (!list_read(list, 0, PAGE, now) || !list_read(list, 1, PAGE, &check) ||
		    !is_bridged(before, now, &check))
			return KERNEL_LOCKS_IN_DOUBT;
		if (page_is_last(now))
			return KERNEL_LOCKS_WHOLE;
	}
	return KERNEL_LOCKS_TOO_MANY;
}

/* --- the kernel's --- */

static ssize_t read_kernel(void *source, int reader, char *text, size_t size)
{
	const int *file = source;
	ssize_t length;

	do
		length = read(file[reader], text, size);
	while (length < 0 && errno == EINTR);
	return length;
}

/* Returns whether a file that could not be opened could be opened another time. */
static bool is_passing(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == EINTR;
}

static enum kernel_locks_read kernel_locks_read_once(int pages, kernel_locks_found *found,
                                                     void *cookie)
{
	enum kernel_locks_read result = KERNEL_LOCKS_IN_DOUBT;
	int file[2];

	file[0] = open("/proc/locks", O_RDONLY | O_CLOEXEC);
	if (file[0] < 0)
		return is_passing(errno) ? KERNEL_LOCKS_IN_DOUBT : KERNEL_LOCKS_UNREADABLE;
	file[1] = open("/proc/locks", O_RDONLY | O_CLOEXEC);
	if (file[1] >= 0) {
		struct list list = {
		    .read = read_kernel, .source = file, .found = found, .cookie = cookie};

		result = list_walk(&list, pages);
		close(file[1]);
	}
	close(file[0]);
	return result;
}

enum kernel_locks_read kernel_locks_all(int pages, kernel_locks_found *found, void *cookie)
{
	enum kernel_locks_read result = KERNEL_LOCKS_IN_DOUBT;
	int saved = errno, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	for (int i = 0; i < TRIES && result == KERNEL_LOCKS_IN_DOUBT; i++)
		result = kernel_locks_read_once(pages, found, cookie);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return result;
}

void kernel_locks_of(int descriptor, kernel_locks_found *found, void *cookie)
{
	struct parser parser;
	struct page page;
	char path[40], text[PAGE];
	int saved = errno, cancel, file;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", descriptor);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	file = open(path, O_RDONLY | O_CLOEXEC);
	parser_next_line(&parser);
	while (file >= 0 && (length = read(file, text, sizeof(text))) > 0)
		kernel_locks_parse(&parser, text, (size_t)length, found, cookie, &page);
	if (file >= 0)
		close(file);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

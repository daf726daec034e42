/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: the reader of pages.
 *
 * The input changes a page that is good. Bytes 0 and 1 are its length, as a fraction of the right
 * one. Changes follow (changes.h). Nothing may crash or hang. An accepted page can be shown and
 * looked for.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/pages/page.h"
#include "tests/fuzz/changes.h"

static struct page good;
static char folder[256], name[128];
static int directory;
static struct changed_file file = {.good = &good, .size = sizeof good, .hot_size = sizeof good};

static void set_up(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(folder, sizeof folder, "%s/fuzz-page-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(folder) || (directory = open(folder, O_RDONLY | O_DIRECTORY)) < 0)
		abort();
	setenv("SPILLWAY_NODE_DIR", folder, 1);
	snprintf(name, sizeof name, "job-%u-fuzz-0000000000000007.page", (unsigned)geteuid());
	file.fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL, 0600);
	memcpy(good.magic, "SPILPAGE", sizeof good.magic);
	good.version = PAGE_VERSION;
	good.size = sizeof good;
	good.token = good.number = 7;
	good.processes = 1;
	good.pid = getpid();
	strcpy(good.job, "fuzz");
	strcpy(good.labels, "a=b");
	strcpy(good.directory, "/dev/shm/spillway-0");
	good.device_count = 3;
	changes_put(&file, 0, &good, sizeof good);
}

static void clean_up(void)
{
	unlinkat(directory, name, 0);
	rmdir(folder);
	close(file.fd);
	close(directory);
}

static void see(void *cookie, const struct page_found *found)
{
	const struct page *page = &found->page;

	++*(int *)cookie;
	if (found->owner != geteuid() || directory_check_name(page->job) != 0 ||
	    page->device_count > SEGMENT_DEVICES || page->processes > SEGMENT_SLOTS)
		abort();
	for (const char *c = page->labels; *c; c++)
		if ((unsigned char)*c < 0x20 || c == page->labels + sizeof page->labels - 1)
			abort();
	if (strlen(page->directory) >= sizeof page->directory)
		abort();
	for (uint32_t i = 0; i < page->device_count; i++)
		if (strlen(page->device[i].device.uuid) >= sizeof page->device[i].device.uuid ||
		    strlen(page->device[i].device.name) >= sizeof page->device[i].device.name)
			abort();
}

static void page_run(const uint8_t *data, size_t size)
{
	char why[256];
	int seen = 0, refused;
	size_t length;

	if (!directory) {
		set_up();
		atexit(clean_up);
	}
	if (size < 2)
		return;
	length = changes_length(&file, data);
	changes_apply(&file, data + 2, size - 2, false);
	if (length != sizeof good && ftruncate(file.fd, (off_t)length) != 0)
		abort();
	refused = page_list(see, &seen, why, sizeof why);
	if (seen + refused != 1)
		abort();
	if (length != sizeof good)
		changes_put(&file, 0, &good, sizeof good);
	changes_apply(&file, data + 2, size - 2, true);
}

/* Where a change is likely to matter. */
static uint32_t page_offset(void)
{
	uint64_t number = fuzz_random();

	switch (number % 4) {
	case 0:
		return (uint32_t)(number >> 8 & 0x3f);
	case 1: /* job, labels, directory, number of devices */
		return (uint32_t)(offsetof(struct page, job) + (number >> 8) % 800);
	default:
		return (uint32_t)((number >> 8) % sizeof(struct page));
	}
}

static size_t page_change(uint8_t input[FUZZ_INPUT_MAX])
{
	return changes_make(input, page_offset);
}

const struct fuzz_target fuzz_page = {
    .name = "page",
    .reads = "pages of jobs",
    .run = page_run,
    .good = changes_none,
    .change = page_change,
    .rounds = 6000,
};

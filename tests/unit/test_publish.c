/* SPDX-License-Identifier: MIT */
/* Publishing: a value is whole for any reader at any time, also when its writer is killed. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/publish.h"
#include "tests/unit/state_directory.h"

enum { WORDS = 9, VALUES = 200000, READERS = 3 };

struct value {
	uint64_t word[WORDS];
};

typedef PUBLISHED(struct value) place_t;

static struct value value_of(uint64_t number)
{
	struct value value;

	for (uint64_t i = 0; i < WORDS; i++)
		value.word[i] = number * (i + 1);
	return value;
}

static bool is_whole(const struct value *value)
{
	struct value expected = value_of(value->word[0]);

	return memcmp(&expected, value, sizeof(expected)) == 0;
}

START_TEST(what_was_published_last_is_read)
{
	place_t place = {0};
	struct value value = value_of(3), read;
	uint64_t version;

	ck_assert(publish_read(&place, &read, &version));
	ck_assert_uint_eq(version, 0);
	ck_assert_uint_eq(read.word[0], 0);
	for (uint64_t number = 1; number < 5; number++) {
		value = value_of(number);
		ck_assert_uint_eq(publish_value(&place, &value), number);
		ck_assert_uint_eq(publish_version(&place), number);
		ck_assert(publish_read(&place, &read, &version));
		ck_assert_uint_eq(version, number);
		ck_assert_mem_eq(&read, &value, sizeof(read));
	}
}
END_TEST

static place_t shared;
static _Atomic bool has_ended;

/* Reads all; whatever is read is whole, of its version, and no older than what was read before. */
static void *read_all(void *cookie)
{
	_Atomic uint64_t *whole = cookie;
	uint64_t last = 0, version;
	struct value value;
	bool ends;

	do {
		ends = has_ended;
		if (!publish_read(&shared, &value, &version))
			continue; /* it says so */
		ck_assert(is_whole(&value));
		ck_assert_uint_eq(value.word[0], version);
		ck_assert_uint_ge(version, last);
		last = version;
		++*whole;
	} while (!ends);
	ck_assert_uint_eq(last, VALUES);
	return NULL;
}

START_TEST(readers_beside_a_writer_read_whole_values)
{
	pthread_t reader[READERS];
	_Atomic uint64_t whole[READERS] = {0};

	memset(&shared, 0, sizeof(shared));
	has_ended = false;
	for (int i = 0; i < READERS; i++)
		pthread_create(&reader[i], NULL, read_all, &whole[i]);
	for (uint64_t number = 1; number <= VALUES; number++) {
		struct value value = value_of(number);

		publish_value(&shared, &value);
	}
	has_ended = true;
	for (int i = 0; i < READERS; i++) {
		pthread_join(reader[i], NULL);
		ck_assert_uint_gt(whole[i], 0);
	}
}
END_TEST

/* In a child, to which the word in which a page begins cannot be written: it is killed there. */
static void publish_and_be_killed(place_t *place, char *page, size_t page_size)
{
	struct value value = value_of(77);
	int status;
	pid_t child = fork();

	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		mprotect(page, page_size, PROT_NONE);
		publish_value(place, &value);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
}

/* Each word that a second value and a third one are written to. */
START_TEST(a_writer_killed_at_any_word_leaves_the_old_value)
{
	size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	char *pages =
	    mmap(NULL, 2 * page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct value read;
	uint64_t version;

	ck_assert_ptr_ne(pages, MAP_FAILED);
	for (uint64_t before = 1; before <= 2; before++) {
		/* After one value the first copy is written to, after two the second. */
		size_t first = offsetof(place_t, word) + (before + 1) % 2 * sizeof(struct value);

		for (size_t at = first; at < first + sizeof(struct value); at += 8) {
			place_t *place = (place_t *)(void *)(pages + page_size - at);
			struct value value;

			memset(place, 0, sizeof(*place));
			for (uint64_t number = 1; number <= before; number++) {
				value = value_of(number);
				publish_value(place, &value);
			}
			publish_and_be_killed(place, pages + page_size, page_size);
			ck_assert(publish_read(place, &read, &version));
			ck_assert_uint_eq(version, before);
			ck_assert_mem_eq(&read, &value, sizeof(read));
			/* And whoever comes next begins again. */
			value = value_of(5);
			publish_value(place, &value);
			ck_assert(publish_read(place, &read, &version));
			ck_assert_uint_eq(version, before + 1);
			ck_assert_mem_eq(&read, &value, sizeof(read));
		}
	}
	munmap(pages, 2 * page_size);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("publish");
	TCase *tests = tcase_create("publish");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, what_was_published_last_is_read);
	tcase_add_test(tests, readers_beside_a_writer_read_whole_values);
	tcase_add_test(tests, a_writer_killed_at_any_word_leaves_the_old_value);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}

/* SPDX-License-Identifier: MIT */
/*
 * Libraries of wheels: the needs of one are read from its file. A written one loads, answers "not
 * supported" and names its functions' versions.
 */
#include <check.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/wheels/library_read.h"
#include "tools/wheels/library_write.h"

#include "suite.h"

enum { STATUS = 16, MANY = 900 };

static int needed, undefined, texts;

static void take_needed(void *cookie, const char *soname)
{
	(void)cookie;
	needed += strcmp(soname, "libc.so.6") == 0;
}

static void take_undefined(void *cookie, const char *name, const char *version)
{
	(void)cookie;
	undefined += strcmp(name, "mkstemp") == 0 && strncmp(version, "GLIBC_", 6) == 0;
}

static void take_text(void *cookie, const char *found)
{
	texts += strcmp(found, cookie) == 0;
}

START_TEST(a_file_says_what_it_wants)
{
	char wanted[] = {'c', 'u', 'X', '\0'};
	struct library library;

	ck_assert(library_map(&library, "/proc/self/exe"));
	library_needed(&library, take_needed, NULL);
	library_undefined(&library, take_undefined, NULL);
	library_texts(&library, take_text, (void *)(uintptr_t) "cufftExecOfThisConstant");
	ck_assert_int_eq(needed, 1);
	ck_assert_int_eq(undefined, 1);
	ck_assert_int_eq(texts, 1);
	library_texts(&library, take_text, wanted);
	ck_assert_int_eq(texts, 1); /* that one is no constant */
	library_unmap(&library);
}
END_TEST

/* A file that ends early, anywhere, or has other numbers in its headers wants less or nothing. */
START_TEST(a_damaged_file_is_read_within_its_bounds)
{
	struct library library;
	unsigned char *copy;
	char nothing[] = {0};

	ck_assert(library_map(&library, "/proc/self/exe"));
	for (size_t size = library.size; size > 0; size /= 2) {
		struct library cut = {.size = size};

		cut.bytes = copy = malloc(size);
		memcpy(copy, library.bytes, size);
		for (int i = 0; i < 64; i++) {
			library_needed(&cut, take_needed, NULL);
			library_undefined(&cut, take_undefined, NULL);
			library_texts(&cut, take_text, nothing);
			library_exported(&cut, take_needed, NULL);
			if (size > 4096)
				copy[(unsigned int)(i * 7919) % 64] ^= (unsigned char)(1 << i % 8);
		}
		free(copy);
	}
	library_unmap(&library);
}
END_TEST

static void *load(const char *soname, const struct library_function *functions, size_t count)
{
	const struct library_form form = {.soname = soname,
	                                  .needed = STAND_IN_LIBRARY,
	                                  .common = STAND_IN_REFUSE,
	                                  .status = STATUS};
	char path[] = "/tmp/test_wheels.XXXXXX";
	int fd = mkstemp(path);
	void *library;

	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert(library_write(path, &form, functions, count));
	library = dlopen(path, RTLD_NOW);
	ck_assert_msg(library, "%s", library ? "" : dlerror());
	unlink(path);
	return library;
}

START_TEST(a_library_that_is_written_refuses)
{
	static const struct library_function functions[] = {
	    {"cufftPlan1d", "libcufft.so.12", STAND_IN_STATUS},
	    {"cufftGetErrorString", "", STAND_IN_TEXT},
	    {"cufftNoStatus", "LATER", STAND_IN_FATAL},
	};
	void *library = load("libcufft.so.12", functions, 3);
	int (*plan)(int, void *) = (int (*)(int, void *))dlsym(library, "cufftPlan1d");
	const char *(*say)(int) = (const char *(*)(int))dlsym(library, "cufftGetErrorString");
	void (*end)(void) = (void (*)(void))dlsym(library, "cufftNoStatus");
	pid_t child;
	int status;

	ck_assert_int_eq(plan(1, NULL), STATUS);
	ck_assert_int_eq(plan(1, NULL), STATUS);
	ck_assert_str_eq(say(3), "not supported by the software GPU");
	ck_assert_ptr_eq(dlvsym(library, "cufftPlan1d", "libcufft.so.12"), (void *)plan);
	ck_assert_ptr_null(dlvsym(library, "cufftPlan1d", "LATER"));
	ck_assert_ptr_null(dlsym(library, "cufftNobody"));
	child = fork();
	if (child == 0) {
		signal(SIGABRT, SIG_DFL);
		end();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	dlclose(library);
}
END_TEST

START_TEST(each_of_many_functions_is_found)
{
	static char names[MANY][16];
	static struct library_function functions[MANY];
	void *library;

	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof names[i], "nccl%d", i);
		functions[i] = (struct library_function){names[i], "", STAND_IN_STATUS};
	}
	library = load("libnccl.so.2", functions, MANY);
	setenv("SOFTGPU_QUIET", "1", 1);
	for (int i = 0; i < MANY; i++) {
		int (*function)(void) = (int (*)(void))dlsym(library, names[i]);

		ck_assert_msg(function, "%s", names[i]);
		ck_assert_int_eq(function(), STATUS);
	}
	dlclose(library);
	dlclose(load("libempty.so.1", functions, 0));
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("wheels");

	/* What is generated needs it, and finds it loaded. */
	if (!dlopen(STAND_IN_LIBRARY, RTLD_NOW | RTLD_GLOBAL)) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}

	tcase_add_test(tests, a_file_says_what_it_wants);
	tcase_add_test(tests, a_damaged_file_is_read_within_its_bounds);
	tcase_add_test(tests, a_library_that_is_written_refuses);
	tcase_add_test(tests, each_of_many_functions_is_found);
	return suite_run("wheels", tests);
}

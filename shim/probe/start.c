/* SPDX-License-Identifier: MIT */
/*
 * The start of a program that is built here and shall run on glibc 2.28, too.
 *
 * Since glibc 2.34 a program has nothing of its own that runs its constructors, and says so by a
 * newer version of __libc_start_main, which an older glibc has not. This program has no
 * constructors; the older version serves it everywhere.
 */
#if defined(__x86_64__)
#define FIRST "GLIBC_2.2.5"
#else
#define FIRST "GLIBC_2.17"
#endif

typedef int main_function(int, char **, char **);
typedef void end_function(void);

int first_start_main(main_function *program, int argc, char **argv, main_function *begin,
                     end_function *end, end_function *loader_end, void *stack_end);
__asm__(".symver first_start_main,__libc_start_main@" FIRST);

int __libc_start_main(main_function *program, int argc, char **argv, main_function *begin,
                      end_function *end, end_function *loader_end, void *stack_end);

static int begin_with_nothing(int argc, char **argv, char **environment)
{
	(void)argc, (void)argv, (void)environment;
	return 0;
}

int __libc_start_main(main_function *program, int argc, char **argv, main_function *begin,
                      end_function *end, end_function *loader_end, void *stack_end)
{
	(void)begin;
	return first_start_main(program, argc, argv, begin_with_nothing, end, loader_end,
	                        stack_end);
}

/* SPDX-License-Identifier: MIT */
/*
 * The start of programs of the GPU kit, which glibc 2.31 takes, too; see old-glibc.
 *
 * Programs of glibc 2.34 and later have no code of their own that runs their constructors. Their
 * start calls __libc_start_main without it, and an older glibc would run none. So theirs is given
 * to it here; a newer one takes it, too.
 */
#if defined(__x86_64__)
#define FIRST "GLIBC_2.2.5"
#else
#define FIRST "GLIBC_2.17"
#endif

typedef int main_function(int, char **, char **);

int first_start_main(main_function *program, int argc, char **argv, main_function *begin,
                     void (*end)(void), void (*loader_end)(void), void *stack_end);
__asm__(".symver first_start_main,__libc_start_main@" FIRST);

extern void (*const constructors_begin[])(int, char **, char **) __asm__("__init_array_start");
extern void (*const constructors_end[])(int, char **, char **) __asm__("__init_array_end");

static int begin(int argc, char **argv, char **environment)
{
	for (void (*const *each)(int, char **, char **) = constructors_begin;
	     each < constructors_end; each++)
		(*each)(argc, argv, environment);
	return 0;
}

int __libc_start_main(main_function *program, int argc, char **argv, main_function *unused,
                      void (*end)(void), void (*loader_end)(void), void *stack_end);

int __libc_start_main(main_function *program, int argc, char **argv, main_function *unused,
                      void (*end)(void), void (*loader_end)(void), void *stack_end)
{
	(void)unused;
	return first_start_main(program, argc, argv, begin, end, loader_end, stack_end);
}

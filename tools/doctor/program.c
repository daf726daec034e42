/* SPDX-License-Identifier: MIT */
/* Judges whether the loader would put the shim into a program. */
#include "tools/doctor/program.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "tools/doctor/paths.h"

#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64 };
#define OWN_NAME "x86-64"
#else
enum { OWN_MACHINE = EM_AARCH64 };
#define OWN_NAME "aarch64"
#endif

enum { SCRIPT_DEPTH = 4 }; /* scripts run by scripts, as far as Linux goes */

struct image {
	FILE *file;
	char head[256];        /* the beginning, with a 0 after it */
	char loader[PATH_MAX]; /* "": asks for none */
};

/* A sentence about a program: the path, a blank, and this. */
enum { REASON_MAX = PATH_MAX + 128 };

static bool program_say(char *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns false: the message is an objection. */
static bool program_say(char *reason, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(reason, REASON_MAX, format, list);
	va_end(list);
	return false;
}

#ifndef EM_LOONGARCH
#define EM_LOONGARCH 258 /* newer than glibc 2.31's elf.h */
#endif

static const char *machine_name(unsigned int machine)
{
	static const struct {
		unsigned int machine;
		const char *name;
	} names[] = {{EM_X86_64, "x86-64"},  {EM_AARCH64, "aarch64"}, {EM_386, "32-bit x86"},
	             {EM_ARM, "32-bit ARM"}, {EM_PPC64, "PowerPC"},   {EM_RISCV, "RISC-V"},
	             {EM_S390, "s390"},      {EM_MIPS, "MIPS"},       {EM_LOONGARCH, "LoongArch"}};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].machine == machine)
			return names[i].name;
	return "another machine";
}

/* Reads which loader the program asks for. Returns false when the file is damaged. */
static bool read_loader(struct image *image, const Elf64_Ehdr *header)
{
	for (int i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr part;
		long offset = (long)(header->e_phoff + (uint64_t)i * header->e_phentsize);
		size_t length;

		if (fseek(image->file, offset, SEEK_SET) != 0 ||
		    fread(&part, sizeof part, 1, image->file) != 1)
			return false;
		if (part.p_type != PT_INTERP)
			continue;
		length = part.p_filesz < PATH_MAX ? part.p_filesz : PATH_MAX - 1;
		if (fseek(image->file, (long)part.p_offset, SEEK_SET) != 0 ||
		    fread(image->loader, 1, length, image->file) != length)
			return false;
		image->loader[length] = '\0';
		return true;
	}
	return true;
}

static bool has_right_machine(const Elf64_Ehdr *header, char *reason)
{
	bool is_narrow = header->e_ident[EI_CLASS] == ELFCLASS32;

	if (header->e_machine == EM_X86_64 && is_narrow)
		return program_say(reason, "is an x32 program, expected one of " OWN_NAME);
	if (header->e_machine != OWN_MACHINE || is_narrow)
		return program_say(reason, "is built for %s, expected " OWN_NAME " as the shim is",
		                   machine_name(header->e_machine));
	return true;
}

static bool has_right_loader(struct image *image, const Elf64_Ehdr *header, char *reason)
{
	const char *loader = image->loader;

	if (!read_loader(image, header))
		return program_say(reason, "is a damaged ELF file");
	if (!*loader)
		return program_say(reason,
		                   "is statically linked: nothing can be preloaded into it");
	if (strstr(loader, "ld-musl"))
		return program_say(reason, "is built for musl (%s): the shim needs glibc", loader);
	if (strstr(loader, "uClibc") || strstr(loader, "/linker"))
		return program_say(
		    reason, "is built for another C library (%s): the shim needs glibc", loader);
	if (access(loader, X_OK) != 0)
		return program_say(reason, "asks for the loader %s: %s", loader, strerror(errno));
	return true;
}

static bool is_elf_for_us(struct image *image, char *reason)
{
	Elf64_Ehdr header;

	memcpy(&header, image->head, sizeof header);
	if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
		return program_say(reason, "is an ELF file, but not a program");
	return has_right_machine(&header, reason) && has_right_loader(image, &header, reason);
}

/*
 * Returns whether the kernel would not run it as privileged for this user: then the loader ignores
 * LD_PRELOAD. reason: why, or why a set-uid program is not.
 */
static bool is_unprivileged(const char *path, char *reason)
{
	struct statvfs place;
	struct stat status;
	bool other_user, other_group;

	if (file_status(path, &status) != 0)
		return true;
	if (statvfs(path, &place) == 0 && place.f_flag & ST_NOSUID)
		return true;
	/*
	 * To root a file's capabilities add nothing; no-new-privs does not make the loader trust
	 * them.
	 */
	if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
		return program_say(reason,
		                   "has file capabilities: the loader ignores LD_PRELOAD for it");
	other_user = status.st_mode & S_ISUID && status.st_uid != getuid();
	other_group =
	    status.st_mode & S_ISGID && status.st_mode & S_IXGRP && status.st_gid != getgid();
	if (!other_user && !other_group)
		return true;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
		program_say(reason, " (its %s has no effect here: no-new-privs is set)",
		            other_user ? "set-uid" : "set-gid");
		return true;
	}
	return program_say(reason, "is set-%s to another %s: the loader ignores LD_PRELOAD for it",
	                   other_user ? "uid" : "gid", other_user ? "user" : "group");
}

/* Reads the program that a "#!" line names; behind env(1), the one that is looked for. */
static bool read_interpreter(char *line, char **interpreter)
{
	char *rest;
	char *word = strtok_r(line + 2, " \t\n", &rest);
	const char *base = word ? strrchr(word, '/') : NULL;

	if (base && strcmp(base, "/env") == 0)
		do
			word = strtok_r(NULL, " \t\n", &rest);
		while (word && (*word == '-' || strchr(word, '=')));
	*interpreter = word;
	return word;
}

static bool program_check(const char *program, int depth, char *message, size_t size);

static bool check_elf(const char *path, struct image *image, char *message, size_t size)
{
	char reason[REASON_MAX] = "";
	bool good = is_elf_for_us(image, reason) && is_unprivileged(path, reason);

	if (good)
		snprintf(message, size, "%s can be run under the shim%s", path, reason);
	else
		snprintf(message, size, "%s %s", path, reason);
	return good;
}

/*
 * Checks a script. Text without a "#!" line is run by sh, as execvp() does. The message begins with
 * the script.
 */
static bool check_script(const char *path, char *head, int depth, char *message, size_t size)
{
	static char shell[] = "/bin/sh";
	char *interpreter = shell;
	size_t length;

	snprintf(message, size, "%s: ", path);
	length = strlen(message);
	message += length;
	size -= length;
	head[strcspn(head, "\n")] = '\0';
	if (strncmp(head, "#!", 2) == 0 && !read_interpreter(head, &interpreter)) {
		snprintf(message, size, "its first line names no interpreter");
		return false;
	}
	if (depth == SCRIPT_DEPTH) {
		snprintf(message, size, "a script run by a script, more than %d deep", depth);
		return false;
	}
	return program_check(interpreter, depth + 1, message, size);
}

/* Says why a program was not found, as errno has it. */
static bool not_found(const char *program, const char *path, char *message, size_t size)
{
	int reason = errno;
	struct stat status;

	if (reason != EACCES || file_status(path, &status) != 0)
		snprintf(message, size, "%s: %s", program, strerror(reason));
	else if (S_ISDIR(status.st_mode))
		snprintf(message, size, "%s: is a directory, expected a program", program);
	else
		snprintf(message, size,
		         "%s: is not executable: its mode, or its file system is mounted noexec",
		         program);
	return false;
}

static bool program_check(const char *program, int depth, char *message, size_t size)
{
	struct image image = {0};
	char path[PATH_MAX];
	size_t length;
	bool good;

	if (!paths_program(program, path))
		return not_found(program, path, message, size);
	image.file = fopen(path, "re");
	if (!image.file) {
		snprintf(message, size, "%s: cannot be looked into: %s", path, strerror(errno));
		return false;
	}
	length = fread(image.head, 1, sizeof image.head - 1, image.file);
	if (length >= sizeof(Elf64_Ehdr) && memcmp(image.head, ELFMAG, SELFMAG) == 0)
		good = check_elf(path, &image, message, size);
	else
		good = check_script(path, image.head, depth, message, size);
	fclose(image.file);
	return good;
}

bool program_can_be_shimmed(const char *program, char *message, size_t size)
{
	return program_check(program, 0, message, size);
}

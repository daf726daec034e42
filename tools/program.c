/* Whether the loader would put the shim into a program. */
#include "tools/program.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "tools/paths.h"

#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64 };
#else
enum { OWN_MACHINE = EM_AARCH64 };
#endif

enum { SCRIPT_DEPTH = 4 }; /* scripts run by scripts, as far as Linux goes */

struct image {
	FILE *file;
	char head[256]; /* the beginning, with a 0 after it */
};

/* The loader the program asks for; "" when it asks for none. False when the file is damaged. */
static bool read_loader(struct image *image, const Elf64_Ehdr *header, char loader[PATH_MAX])
{
	*loader = '\0';
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
		    fread(loader, 1, length, image->file) != length)
			return false;
		loader[length] = '\0';
		return true;
	}
	return true;
}

/* NULL when nothing stands against it, else the reason. */
static const char *why_not_elf(struct image *image)
{
	char loader[PATH_MAX];
	Elf64_Ehdr header;

	memcpy(&header, image->head, sizeof header);
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != OWN_MACHINE)
		return "is built for another architecture than the shim";
	if (!read_loader(image, &header, loader))
		return "is a damaged ELF file";
	if (!*loader)
		return "is statically linked: nothing can be preloaded into it";
	if (strstr(loader, "ld-musl"))
		return "is built for musl: the shim needs glibc";
	return NULL;
}

static const char *why_not_privileged(const char *path)
{
	struct stat status;

	if (stat(path, &status) == 0 && status.st_mode & (S_ISUID | S_ISGID))
		return "is set-uid or set-gid: the loader ignores LD_PRELOAD for it";
	if (getxattr(path, "security.capability", NULL, 0) > 0)
		return "has file capabilities: the loader ignores LD_PRELOAD for it";
	return NULL;
}

/* The program a "#!" line names; behind env(1), the one that is looked for. */
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

static bool check(const char *program, int depth, char *message, size_t size);

static bool check_elf(const char *path, struct image *image, char *message, size_t size)
{
	const char *reason = why_not_privileged(path);

	if (!reason)
		reason = why_not_elf(image);
	snprintf(message, size, "%s %s", path, reason ? reason : "can be run under the shim");
	return !reason;
}

/* Text without a "#!" line is run by sh, as execvp() does. */
static bool check_script(const char *path, char *head, int depth, char *message, size_t size)
{
	static char shell[] = "/bin/sh";
	char *interpreter = shell;

	head[strcspn(head, "\n")] = '\0';
	if (depth < SCRIPT_DEPTH &&
	    (strncmp(head, "#!", 2) != 0 || read_interpreter(head, &interpreter)))
		return check(interpreter, depth + 1, message, size);
	snprintf(message, size, "%s: its first line names no interpreter", path);
	return false;
}

static bool check(const char *program, int depth, char *message, size_t size)
{
	struct image image = {0};
	char path[PATH_MAX];
	size_t length;
	bool good;

	if (!paths_program(program, path)) {
		snprintf(message, size, "%s: %s", program, strerror(errno));
		return false;
	}
	image.file = fopen(path, "re");
	if (!image.file) {
		snprintf(message, size, "%s: %s", path, strerror(errno));
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
	return check(program, 0, message, size);
}

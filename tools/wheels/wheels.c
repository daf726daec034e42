/* SPDX-License-Identifier: MIT */
#include "tools/wheels/wheels.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "tools/view/cache.h"
#include "tools/view/tool.h"
#include "tools/wheels/library_read.h"
#include "tools/wheels/library_write.h"

/* Part of a folder's name: raised when the generated libraries change. */
#define FORMAT "2"

/*
 * NVIDIA's libraries: how names of their functions begin, and their status for "not supported".
 * TensorFlow opens them by name, under the versions that CUDA 12 and 13 gave them.
 */
static const struct vendor {
	const char *base, *prefix;
	int status; /* 0: there is none, and the process ends */
	const char *opened[2];
} vendors[] = {
    {"libcublas", "cublas", 15, {0}}, /* CUBLAS_STATUS_NOT_SUPPORTED */
    {"libcublasLt", "cublasLt", 15, {0}},
    {"libcudnn", "cudnn", 3000, {0}}, /* CUDNN_STATUS_NOT_SUPPORTED */
    {"libcufft", "cufft", 16, {"libcufft.so.11", "libcufft.so.12"}}, /* CUFFT_NOT_SUPPORTED */
    {"libcufile", "cuFile", 0, {0}},
    {"libcupti", "cupti", 27, {"libcupti.so.12", "libcupti.so.13"}}, /* CUPTI_ERROR_NOT_SUPPORTED */
    {"libcusolver", "cusolver", 9, {"libcusolver.so.11", "libcusolver.so.12"}},
    {"libcusparse", "cusparse", 10, {"libcusparse.so.12", NULL}},
    {"libcusparseLt", "cusparseLt", 10, {0}},
    {"libnccl", "nccl", 3, {"libnccl.so.2", NULL}}, /* ncclInternalError: none says more */
    {"libnvrtc", "nvrtc", 0, {0}},
    {"libnvshmem_host", "nvshmem", 0, {0}},
};
enum { VENDORS = sizeof vendors / sizeof *vendors };

/* All that the wheels want. */
struct wanted {
	char **sonames;
	int soname_count;
	struct library_function *functions;
	int function_count;
};

/* --- Python's packages --- */

static void keep_place(struct wheels *wheels, char *line)
{
	char *place = strchr(line, ' ');

	line[strcspn(line, "\n")] = '\0';
	if (!place)
		return;
	*place++ = '\0';
	if (strcmp(line, "torch") == 0)
		snprintf(wheels->torch, PATH_MAX, "%s", place);
	if (strcmp(line, "tensorflow") == 0)
		snprintf(wheels->tensorflow, PATH_MAX, "%s", place);
	if (strcmp(line, "triton") == 0 &&
	    snprintf(wheels->libdevice, PATH_MAX, "%s/backends/nvidia/lib/libdevice.10.bc", place) <
	        PATH_MAX &&
	    access(wheels->libdevice, R_OK) != 0)
		*wheels->libdevice = '\0';
}

/* Becomes the Python, which looks for packages and imports none. NAME is its argv[0]. */
static _Noreturn void become_python(const char *python, const char *name, int out)
{
	static const char question[] =
	    "import importlib.util\n"
	    "for name in ('torch', 'tensorflow', 'triton'):\n"
	    "    found = importlib.util.find_spec(name)\n"
	    "    if found and found.origin and found.submodule_search_locations:\n"
	    "        print(name, found.submodule_search_locations[0])\n";
	int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(nowhere, STDIN_FILENO);
	dup2(nowhere, STDERR_FILENO);
	dup2(out, STDOUT_FILENO);
	execl(python, name, "-c", question, (char *)NULL);
	_exit(RUN_NOT_FOUND);
}

/* Returns a stream of Python's output. */
static FILE *python_answer(int fd)
{
	FILE *answer = fdopen(fd, "r");

	if (!answer)
		fail("out of memory");
	return answer;
}

static void ask_python(struct wheels *wheels, const char *python, const char *name)
{
	int ends[2];
	char line[PATH_MAX + 16];
	FILE *answer;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) != 0)
		fail("pipe: %s", strerror(errno));
	child = fork();
	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (child == 0)
		become_python(python, name, ends[1]);
	close(ends[1]);
	answer = python_answer(ends[0]);
	while (fgets(line, sizeof line, answer))
		keep_place(wheels, line);
	fclose(answer);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

/* --- the files of a wheel --- */

/*
 * Calls take() with the path of each library in a folder that wants NVIDIA's: those of torch/lib,
 * and "NAME.so.VERSION" of TensorFlow's.
 */
static void each_library(const struct wheels *wheels,
                         void (*take)(void *cookie, const char *path, bool opens), void *cookie)
{
	for (int opens = 0; opens < 2; opens++) {
		char *folder =
		    opens ? text("%s", wheels->tensorflow) : text("%s/lib", wheels->torch);
		bool is_there = opens ? *wheels->tensorflow : *wheels->torch;
		struct dirent **entries = NULL;
		int count = is_there ? scandir(folder, &entries, NULL, alphasort) : 0;

		for (int i = 0; i < count; i++) {
			const char *ending = strstr(entries[i]->d_name, opens ? ".so." : ".so");
			char *path = text("%s/%s", folder, entries[i]->d_name);

			if (ending)
				take(cookie, path, opens);
			free(path);
			free(entries[i]);
		}
		free(entries);
		free(folder);
	}
}

/* Adds a file's name and size. */
static void add_file(void *cookie, const char *path, bool opens)
{
	struct stat status = {0};
	char *part;

	(void)opens;
	file_status(path, &status);
	part = text("%s %jd\n", strrchr(path, '/'), (intmax_t)status.st_size);
	*(uint64_t *)cookie = hash_text(*(uint64_t *)cookie, part);
	free(part);
}

/* Names the folder by the sources of its content. */
static void name_folder(struct wheels *wheels, const char *softgpu)
{
	uint64_t sum = hash_text(HASH_NOTHING, FORMAT);
	char *ptxas = text("%s/cuda/bin/ptxas", softgpu), *name;

	each_library(wheels, add_file, &sum);
	if (*wheels->libdevice) {
		add_file(&sum, wheels->libdevice, false);
		add_file(&sum, ptxas, false);
	}
	free(ptxas);
	name = text("stand-ins/%s%s%s-%016" PRIx64, *wheels->torch ? "torch" : "",
	            *wheels->torch && *wheels->tensorflow ? "-" : "",
	            *wheels->tensorflow ? "tensorflow" : "", sum);
	cache_path(wheels->stand_ins, name);
	free(name);
}

bool wheels_find(struct wheels *wheels, const char *python, const char *name, const char *softgpu)
{
	*wheels = (struct wheels){0};
	ask_python(wheels, python, name);
	if (!*wheels->torch && !*wheels->tensorflow)
		return false;
	name_folder(wheels, softgpu);
	return true;
}

/* --- the libraries they want --- */

/* Returns the library that a soname is of, or NULL. */
static const struct vendor *vendor_of_soname(const char *soname)
{
	size_t length = strcspn(soname, ".");

	for (int i = 0; i < VENDORS; i++)
		if (strlen(vendors[i].base) == length &&
		    strncmp(soname, vendors[i].base, length) == 0)
			return &vendors[i];
	return NULL;
}

/* Returns the library that a function is of, by the longest beginning, or NULL. */
static const struct vendor *vendor_of_function(const char *name)
{
	const struct vendor *best = NULL;

	for (int i = 0; i < VENDORS; i++) {
		size_t length = strlen(vendors[i].prefix);

		if (strncmp(name, vendors[i].prefix, length) == 0 &&
		    (!best || length > strlen(best->prefix)))
			best = &vendors[i];
	}
	return best;
}

static void take_soname(void *cookie, const char *soname)
{
	struct wanted *wanted = cookie;

	if (!vendor_of_soname(soname))
		return;
	for (int i = 0; i < wanted->soname_count; i++)
		if (strcmp(wanted->sonames[i], soname) == 0)
			return;
	wanted->sonames = grow(wanted->sonames, wanted->soname_count, sizeof *wanted->sonames);
	wanted->sonames[wanted->soname_count++] = text("%s", soname);
}

static bool wheels_ends_in(const char *name, const char *ending)
{
	size_t length = strlen(name), tail = strlen(ending);

	return length >= tail && strcmp(name + length - tail, ending) == 0;
}

/* Returns how a function answers; a few answer a text in place of a status. */
static enum stand_in_kind wheels_kind_of(const char *name, const struct vendor *vendor)
{
	static const char *const endings[] = {"GetErrorString", "GetStatusString", "GetErrorName",
	                                      "GetStatusName", "GetLastError"};

	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (wheels_ends_in(name, endings[i]))
			return STAND_IN_TEXT;
	return vendor->status ? STAND_IN_STATUS : STAND_IN_FATAL;
}

static void take_function(void *cookie, const char *name, const char *version)
{
	const struct vendor *vendor = vendor_of_function(name);
	struct wanted *wanted = cookie;

	if (!vendor)
		return;
	wanted->functions =
	    grow(wanted->functions, wanted->function_count, sizeof *wanted->functions);
	wanted->functions[wanted->function_count++] = (struct library_function){
	    text("%s", name), text("%s", version), wheels_kind_of(name, vendor)};
}

/* A text that is a function's name: its beginning, a capital, and no blank. */
static void take_text(void *cookie, const char *name)
{
	const struct vendor *vendor =
	    *name == 'c' || *name == 'n' ? vendor_of_function(name) : NULL;

	if (!vendor || !isupper((unsigned char)name[strlen(vendor->prefix)]))
		return;
	for (const char *next = name; *next; next++)
		if (!isalnum((unsigned char)*next) && *next != '_')
			return;
	take_function(cookie, name, "");
}

static void take_library(void *cookie, const char *path, bool opens)
{
	struct library library;

	if (!library_map(&library, path))
		return;
	library_needed(&library, take_soname, cookie);
	library_undefined(&library, take_function, cookie);
	if (opens)
		library_texts(&library, take_text, cookie);
	library_unmap(&library);
}

/* By library, then name; of two alike the one with a version comes first. */
static int compare_functions(const void *one, const void *other)
{
	const struct library_function *a = one, *b = other;
	int order = strcmp(vendor_of_function(a->name)->base, vendor_of_function(b->name)->base);

	if (order == 0)
		order = strcmp(a->name, b->name);
	return order ? order : strcmp(b->version, a->version);
}

static void find_wanted(const struct wheels *wheels, struct wanted *wanted)
{
	int kept = 0;

	each_library(wheels, take_library, wanted);
	for (int i = 0; *wheels->tensorflow && i < VENDORS; i++)
		for (int j = 0; j < 2; j++)
			if (vendors[i].opened[j])
				take_soname(wanted, vendors[i].opened[j]);
	if (wanted->function_count)
		qsort(wanted->functions, (size_t)wanted->function_count, sizeof *wanted->functions,
		      compare_functions);
	for (int i = 0; i < wanted->function_count; i++)
		if (kept == 0 ||
		    strcmp(wanted->functions[kept - 1].name, wanted->functions[i].name))
			wanted->functions[kept++] = wanted->functions[i];
	wanted->function_count = kept;
}

/* --- the folder --- */

static bool make_library(const char *folder, const char *soname, const struct wanted *wanted)
{
	const struct vendor *vendor = vendor_of_soname(soname);
	const struct library_form form = {.soname = soname,
	                                  .needed = STAND_IN_LIBRARY,
	                                  .common = STAND_IN_REFUSE,
	                                  .status = vendor->status};
	char *path = text("%s/%s", folder, soname);
	int first = 0, count = 0;
	bool is_made;

	while (first < wanted->function_count &&
	       vendor_of_function(wanted->functions[first].name) != vendor)
		first++;
	while (first + count < wanted->function_count &&
	       vendor_of_function(wanted->functions[first + count].name) == vendor)
		count++;
	is_made = library_write(path, &form, wanted->functions + first, (size_t)count);
	free(path);
	return is_made;
}

static bool copy_file(const char *from, const char *folder, const char *name, mode_t mode)
{
	char *to = text("%s/%s", folder, name);
	struct library source = {0};
	bool is_copied = cache_make_folders(folder) && library_map(&source, from);
	int fd = is_copied ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode) : -1;

	is_copied = fd >= 0 && write(fd, source.bytes, source.size) == (ssize_t)source.size;
	is_copied = (fd < 0 || close(fd) == 0) && is_copied;
	if (source.bytes)
		library_unmap(&source);
	free(to);
	return is_copied;
}

/* Makes FOLDER/cuda, as XLA looks for a toolkit. */
static bool make_toolkit(const struct wheels *wheels, const char *softgpu, const char *folder)
{
	char *ptxas = text("%s/cuda/bin/ptxas", softgpu), *bin = text("%s/cuda/bin", folder);
	char *bitcode = text("%s/cuda/nvvm/libdevice", folder);
	bool is_made = copy_file(ptxas, bin, "ptxas", 0755) &&
	               copy_file(wheels->libdevice, bitcode, "libdevice.10.bc", 0644);

	free(ptxas);
	free(bin);
	free(bitcode);
	return is_made;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *where)
{
	(void)status;
	(void)kind;
	(void)where;
	return remove(path);
}

static bool wheels_make_all(const struct wheels *wheels, const char *softgpu, const char *folder)
{
	struct wanted wanted = {0};
	bool is_made = cache_make_folders(folder);

	find_wanted(wheels, &wanted);
	for (int i = 0; is_made && i < wanted.soname_count; i++) {
		char *ours = text("%s/%s", softgpu, wanted.sonames[i]);

		if (access(ours, F_OK) != 0)
			is_made = make_library(folder, wanted.sonames[i], &wanted);
		free(ours);
	}
	if (is_made && *wheels->libdevice)
		is_made = make_toolkit(wheels, softgpu, folder);
	return is_made;
}

bool wheels_make(const struct wheels *wheels, const char *softgpu, char *message, size_t size)
{
	char *folder;
	bool is_made;

	if (!*wheels->stand_ins) {
		snprintf(message, size, "neither HOME nor XDG_CACHE_HOME names a folder for them");
		return false;
	}
	if (access(wheels->stand_ins, F_OK) == 0)
		return true;
	log_info("making stand-ins for libraries of NVIDIA's in %s, once", wheels->stand_ins);
	folder = text("%s.%d", wheels->stand_ins, (int)getpid());
	/* A run beside this one may have made them meanwhile. */
	is_made = wheels_make_all(wheels, softgpu, folder) &&
	          (rename(folder, wheels->stand_ins) == 0 || access(wheels->stand_ins, F_OK) == 0);
	if (!is_made)
		snprintf(message, size, "%s: %s", folder, strerror(errno));
	nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	free(folder);
	return is_made;
}

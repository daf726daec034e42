#!/bin/sh
# SPDX-License-Identifier: MIT
# A library that opens another one beside it finds it by the RUNPATH of the caller of dlopen. The
# caller is a program, or a plugin in a program without a RUNPATH, built with and without
# optimisation. Ours keeps the caller's return address, by which glibc knows it.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
case ${SANITIZER:-} in
address | thread)
	echo "the sanitizer's own dlopen loses the caller"
	exit 77
	;;
esac

cat >"$scratch/caller.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const char *open_beside(const char *how);
const char *open_beside(const char *how)
{
	void *library = strcmp(how, "dlmopen") == 0 ? dlmopen(LM_ID_BASE, "libbeside.so", RTLD_NOW)
	                                            : dlopen("libbeside.so", RTLD_NOW);
	const char *(*name)(void);

	if (!library)
		return "not found";
	*(void **)&name = dlsym(library, "beside");
	return name();
}

#ifdef PROGRAM
int main(int argc, char **argv)
{
	printf("%s\n", open_beside(argv[argc - 1]));
	return 0;
}
#endif
C
cat >"$scratch/program.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	const char *(*open_beside)(const char *);
	void *plugin = dlopen(argv[1], RTLD_NOW);

	if (!plugin) {
		printf("%s\n", dlerror());
		return 1;
	}
	*(void **)&open_beside = dlsym(plugin, "open_beside");
	printf("%s\n", open_beside(argv[argc - 1]));
	return 0;
}
C
echo 'const char *beside(void); const char *beside(void) { return "found"; }' >"$scratch/beside.c"
mkdir -p "$scratch/plugin/inner"
build_c() { # build_c ARGUMENTS...
	# shellcheck disable=SC2086 # CC may hold several words
	${CC:-cc} -Wall -Werror "$@" -ldl || fail "not built: $*"
}
build_c -shared -fPIC -o "$scratch/plugin/inner/libbeside.so" "$scratch/beside.c"
for level in 0 2; do
	set -- "-O$level" -Wl,--enable-new-dtags
	build_c "$@" -o "$scratch/program$level" "$scratch/program.c"
	# shellcheck disable=SC2016 # the loader's own variable
	build_c "$@" -shared -fPIC -Wl,-rpath,'$ORIGIN/inner' -o "$scratch/plugin/plugin$level.so" "$scratch/caller.c"
	build_c "$@" -shared -fPIC -o "$scratch/plugin/without$level.so" "$scratch/caller.c"
	# shellcheck disable=SC2016
	build_c "$@" -DPROGRAM -Wl,-rpath,'$ORIGIN/plugin/inner' -o "$scratch/direct$level" "$scratch/caller.c"
done

for level in 0 2; do
	for how in dlopen dlmopen; do
		same "a plugin of a program, -O$level, $how" found \
			"$(under_shim "$scratch/program$level" "$scratch/plugin/plugin$level.so" $how)"
		same "a program of its own, -O$level, $how" found "$(under_shim "$scratch/direct$level" $how)"
		same "a plugin without RUNPATH, -O$level, $how" "not found" \
			"$(under_shim "$scratch/program$level" "$scratch/plugin/without$level.so" $how)"
	done
done

#!/bin/sh
# SPDX-License-Identifier: MIT
# tools/dev/lint looks at each file of a fresh clone, then at files that have changed or were not
# clean. The repository here has two files, and the tools are stand-ins that note the files they
# look at.
set -eu
cd "$(dirname "$0")/../.."
command -v git >/dev/null || {
	echo 'there is no git'
	exit 77
}
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
mkdir -p "$at/clone/tools/dev" "$at/bin"
cp tools/dev/lint "$at/clone/tools/dev/"
cp .clang-tidy "$at/clone/"
for tool in clang-format clang-tidy cppcheck shellcheck; do
	cat >"$at/bin/$tool" <<-'END'
		#!/bin/sh
		for file; do
			case ${0##*/},$file in
			clang-tidy,*.c | cppcheck,*.c) echo "${0##*/} $file" >>"$SEEN" ;;
			*) continue ;;
			esac
			! grep -q FAULT "$file" || [ "${0##*/}" = clang-tidy ] || exit 1
		done
	END
	chmod +x "$at/bin/$tool"
done
echo '#include "one.h"' >"$at/clone/one.c"
echo 'int one;' >"$at/clone/one.h"
echo 'int two;' >"$at/clone/two.c"
git -C "$at/clone" init -q
git -C "$at/clone" add .

# lints RESULT [FILE...]: these files are looked at, by both tools
lints() {
	: >"$at/seen"
	result=0
	SEEN=$at/seen PATH=$at/bin:$PATH BUILD=build CUDA_INCLUDE=/nowhere "$at/clone/tools/dev/lint" >"$at/said" 2>&1 || result=1
	[ $result = "$1" ] || {
		echo "lint: expected $1, not $result:" && cat "$at/said"
		exit 1
	}
	shift
	for file; do printf 'clang-tidy %s\ncppcheck %s\n' "$file" "$file"; done | sort >"$at/expected"
	sort "$at/seen" | diff "$at/expected" - || {
		echo "lint: expected $*, not those"
		exit 1
	}
}
lints 0 one.c two.c
lints 0
echo 'int more;' >>"$at/clone/one.h"
lints 0 one.c
echo '/* FAULT */' >>"$at/clone/two.c"
lints 1 two.c
lints 1 two.c

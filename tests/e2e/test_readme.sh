#!/bin/sh
# SPDX-License-Identifier: MIT
# README is short, its links lead somewhere, a newcomer's words stand first, and its lines run as
# they are.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

# The lines of a table are no words.
words=$(tr -s ' ' '\n' <README.md | grep -c '[[:alnum:]]')
[ "$words" -le 1500 ] || fail "README.md has $words words, expected at most 1500"

# Links to files, and to headings: of this file, or of the one that is linked.
heading() { # heading FILE ANCHOR
	sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g' | grep -qx "$2"
}
for document in README.md CONTRIBUTING.md core/README.md core/memory/README.md conf/README.md tests/bench/README.md tests/gpu/README.md; do
	folder=$(dirname "$document")
	grep -o '](\([^)]*\))' "$document" | sed 's/^](//; s/)$//' >"$TMPDIR/links"
	while read -r link; do
		case $link in http*) continue ;; esac
		file=${link%%#*}
		anchor=${link#"$file"}
		if [ -n "$file" ]; then at=$folder/$file; else at=$document; fi
		[ -e "$at" ] || fail "$document: $link: there is no such file"
		[ -z "$anchor" ] || heading "$at" "${anchor#\#}" || fail "$document: $link: there is no such heading"
	done <"$TMPDIR/links"
done
[ "$(grep -c '](' README.md)" -ge 8 ] || fail 'README.md has too few links to be what was read'

# Two commands stand first: the demo, which test_demo.sh runs, and the one of .ci/run, which tests
# all.
all=$(sed -n 's/^\(make check.*\) JUDGES=all$/\1/p' .ci/run)
[ "$(sed -n '/^## /q; s/ *#.*//; s/^    //p' README.md)" = "make demo
${all:?}" ] || fail "README.md: the first two commands are not the demo and '$all'"

# What has to be looked up stands after the first two screens.
for word in demote elastic held slot turn provider; do
	! sed 60q README.md | grep -qiw "${word}[sd]*" || fail "README.md: '$word' is on the first two screens"
done

# From the sources to a running job under a limit; tests/packages/test_install.sh runs the lines of
# the packages.
if [ -n "${SANITIZER:-}" ] || [ ! -e "$BUILD/lib/libspillway.so" ]; then finish; fi
unset MAKEFLAGS MFLAGS MAKELEVEL
export HOME="$TMPDIR/home" DEPS=never
mkdir "$HOME"
sed -n '/^## Install/,/^## /s/^    //p' README.md >"$TMPDIR/lines"
[ "$(wc -l <"$TMPDIR/lines")" -eq 5 ] || fail "expected five lines under Install: $(cat "$TMPDIR/lines")"
line() { sed -n "$1p" "$TMPDIR/lines"; }
expect 0 sh -c "$(line 3)"
says "$out" "^installed: $HOME/.local/bin/spillway, "
PATH=$HOME/.local/bin:$PATH
# With a GPU: the software one lies where a driver does, and `python` is whatever trains.
mkdir "$TMPDIR/bin"
ln -s "$(command -v python3)" "$TMPDIR/bin/python"
cat >"$TMPDIR/train.py" <<'END'
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(100 << 20)) == 0
print("trained")
END
expect 0 env -C "$TMPDIR" PATH="$TMPDIR/bin:$PATH" LD_LIBRARY_PATH="$PWD/$BUILD/softgpu" sh -c "$(line 4)"
says "$out" '^trained$'
# Without one.
expect 0 sh -c "$(line 5) --epochs 2"
says "$out" '^epoch 2: '
says "$err" '^spillway: .*: GPU at most 64\.0 MiB.* \(limit 64\.0 MiB\)'
finish

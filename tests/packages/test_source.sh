#!/bin/sh
# SPDX-License-Identifier: MIT
# The tarball holds git's files, checks itself without git, and builds and installs in Debian 11
# (gcc 10, glibc 2.31).
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/packages/roots.sh
. tests/packages/roots.sh
# shellcheck source=tests/packages/source.sh
. tests/packages/source.sh
version=$(sed -n 's/^version := //p' Makefile)
tar -tzf "$build/packages/spillway-$version.tar.gz" | sed -n "s|^spillway-$version/||p" | grep -v '/$' | grep . | LC_ALL=C sort >"$scratch/in"
git ls-files 2>/dev/null | LC_ALL=C sort >"$scratch/known" || :
[ ! -s "$scratch/known" ] || diff "$scratch/known" "$scratch/in" || fail 'the tarball lacks files'

# Its own `make check`, on what is built here already: its files are older than any object.
tar -C "$scratch" -xzf "$build/packages/spillway-$version.tar.gz"
sources=$scratch/spillway-$version
find "$sources" -type f -exec touch -d @1 {} +
ln -s "$build" "$sources/build"
(
	unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES BUILD
	GIT_CEILING_DIRECTORIES=$scratch make -C "$sources" --no-print-directory run-check TESTS=house/
) >"$scratch/said" 2>&1 || fail "make check in the tarball's tree: $(tail -n 40 "$scratch/said")"
has 'make check' "$(cat "$scratch/said")" 'ok    house/test_spdx.py'
rm "$sources/build"
source_in bullseye

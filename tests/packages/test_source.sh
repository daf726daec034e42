#!/bin/sh
# SPDX-License-Identifier: MIT
# The tarball holds what git knows, and builds and installs in Debian 11 (gcc 10, glibc 2.31).
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
source_in bullseye

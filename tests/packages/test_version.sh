#!/bin/sh
# SPDX-License-Identifier: MIT
# One version: that of the Makefile is the command's, the wheel's, the images' and the changelog's.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
version=$(sed -n 's/^version := //p' Makefile)
same "the command's version" "spillway $version" "$("$spillway" --version)"
same "the wheel's version" "$version" "$(ls "$build"/packages/*.whl | sed 's/.*gpu_spillway-\([^-]*\)-.*/\1/')"
same "the images' versions" "spillway:$version" "$(grep -rho 'spillway:[0-9][0-9.]*[0-9]' conf | sort -u)"
same "the changelog's newest version" "$version" "$(sed -n 's/^## \[\([0-9.]*\)\].*/\1/p' CHANGELOG.md | head -n 1)"

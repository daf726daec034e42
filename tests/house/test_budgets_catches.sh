#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_budgets.py fails where a figure is above its bound or has none, and where a module lists a
# missing file.
set -eu
cd "$(dirname "$0")/../.."
case ${BUILD:=build} in *build-*) exit 77 ;; esac
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT

expect() { # TABLE LINE...: the test fails with each of these lines
	local table=$1
	shift
	! tests/house/test_budgets.py . "$BUILD" "$table" >"$at/said" || { echo "accepted: $table" && exit 1; }
	for line in "$@"; do grep -q "$line" "$at/said" || { echo "not said: $line" && cat "$at/said" && exit 1; }; done
}

mkdir -p "$at/tests"
sed -E 's/^(budget +[a-z_]+ +)[0-9.]+/\10/' tests/house/budgets >"$at/all"
mapfile -t names < <(awk '$1 == "budget" { print "^" $2 " is [0-9.,]*, at most 0: " }' tests/house/budgets)
[ ${#names[@]} -gt 10 ]
expect "$at/all" "${names[@]}"
sed '/^budget lines_kernel/d; s,^module ipc .*,& core/absent,' tests/house/budgets >"$at/lacks"
expect "$at/lacks" 'lines_kernel has no bound' 'core/absent is no file or folder'

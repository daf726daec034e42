#!/bin/sh
# SPDX-License-Identifier: MIT
# A process without a name that is killed while it makes its files leaves none for ever. The next
# such process that is not over at once removes them, at whichever step the first was killed.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
entry=$build/tests/e2e/entry
files() { ls -A "$SPILLWAY_STATE_DIR"; }

# killed MOMENT: where its segment gets its name
killed() {
	LD_LIBRARY_PATH=$softgpu DIE_AT=$1 DIE_NAME=.segment LD_PRELOAD="$build/tests/e2e/die_at.so $shim" "$entry" --init >"$scratch/out" 2>&1 &
	wait $! && fail "$1: was not killed: $(cat "$scratch/out")"
	return 0
}

# nothing_left: after another process that ends by itself the directory has its lock, the answers of
# the driver's probe, and the files that belong to the device
nothing_left() {
	under_shim "$build/tests/e2e/allocate" --count 1 --hold-ms 100 >"$scratch/out" 2>&1 || return 1
	left=$(files | grep -v -e '^\.lock$' -e '^driver-probe$' -e '^turns-' -e '^tmp$' -e '^softgpu$' -e '^node$' || true)
	[ -z "$left" ]
}

killed before
has "killed before" "$(files)" ".unfinished"
until_true $patience nothing_left || fail "killed before its file had its name: left are $left"
killed after
has "killed after" "$(files)" ".segment"
until_true $patience nothing_left || fail "killed after its file had its name: left are $left"

#!/bin/sh
# SPDX-License-Identifier: MIT
# SPILLWAY_DISABLE leaves trampolines alone. Peer access between two devices is always as without
# Spillway: when Spillway is disabled, active, under a limit that is not exceeded, and with the
# memory on the host.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
guest=$build/tests/e2e/guest
peers=$build/tests/e2e/peers

# No thread, descriptor, mapping or file of ours, and no word.
state=$SPILLWAY_STATE_DIR
left() { # left COMMAND...: what the process has, and what is written
	SPILLWAY_JOB=j SPILLWAY_MEMORY=16MiB SPILLWAY_LOG=info \
		"$@" "$guest" init context alloc:8:4 threads fds files free 2>&1
	find "$state" -name '*.segment' -o -name .lock
}
plain=$(left on_softgpu)
has "plain" "$plain" "done"
for yes in 1 yes YES true True on; do
	export SPILLWAY_DISABLE=$yes
	same "SPILLWAY_DISABLE=$yes" "$plain" "$(left under_shim)"
done
for no in 0 no NO false False off ''; do
	export SPILLWAY_DISABLE=$no
	out=$(left under_shim)
	has "SPILLWAY_DISABLE=$no" "$out" "total=16777216"
	has "SPILLWAY_DISABLE=$no" "$out" "files=1"
	case $out in *DISABLE*) fail "SPILLWAY_DISABLE=$no: $out" ;; esac
done
export SPILLWAY_DISABLE=maybe
out=$(left under_shim)
has "SPILLWAY_DISABLE=maybe" "$out" "SPILLWAY_DISABLE = maybe: expected yes"
same "SPILLWAY_DISABLE=maybe: lines" 1 "$(printf '%s\n' "$out" | grep -c DISABLE)"
unset SPILLWAY_DISABLE

# Two devices that reach each other.
export SOFTGPU_DEVICES=2
plain=$(on_softgpu "$peers" 2>&1) || fail "peers: $plain"
has "plain" "$plain" "can=1"
has "plain" "$plain" "from the peer: 6 differ=0"
as_plain() { # as_plain WHAT NAME=VALUE...
	what=$1
	shift
	env "$@" LD_PRELOAD="$shim" LD_LIBRARY_PATH="$softgpu" "$peers" >"$scratch/out" 2>&1 || fail "$what: $(cat "$scratch/out")"
	printf '%s\n' "$plain" | diff - "$scratch/out" || fail "$what: differs from without us"
}
as_plain "disabled" SPILLWAY_DISABLE=1 SPILLWAY_MEMORY=1MiB
as_plain "active" SPILLWAY_JOB=peers
as_plain "a share" SPILLWAY_SHARE=90
as_plain "a limit that nothing exceeds" SPILLWAY_MEMORY=1GiB
as_plain "memory on the host" SPILLWAY_MEMORY=1MiB

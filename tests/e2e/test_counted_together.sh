#!/bin/sh
# SPDX-License-Identifier: MIT
# Jobs that make their contexts at the same moment, where NVML does not know their processes: each
# is charged its own alone.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
export SOFTGPU_CONTEXT_MEMORY=8M SOFTGPU_NVML=host
mkfifo "$scratch/first" "$scratch/second"
exec 6<>"$scratch/first" 7<>"$scratch/second"

# are STEP: all have come to it
are() {
	for name in a b c d e f g h; do [ -e "$scratch/$round$name.$1" ] || return 1; done
}
go_on() { printf '\n\n\n\n\n\n\n\n'; }
# The contexts are made one at a time, unless one takes a second.
are_charged_their_own() {
	round=$(date +%N) jobs=""
	for name in a b c d e f g h; do
		{ read -r _ <&6 && echo && read -r _ <&7 && echo; } |
			"$spillway" run --softgpu --quiet --name "$round$name" --memory 64MiB "$build/tests/e2e/guest" init "wait:$scratch/$round$name.here" \
			context "wait:$scratch/$round$name.made" >"$scratch/$name" 2>&1 &
		jobs="$jobs $!"
	done
	until_true $patience are here || fail "not all begin: $(cat "$scratch"/[a-h])"
	go_on >&6
	until_true $patience are made || fail "not all have a context: $(cat "$scratch"/[a-h])"
	charged=""
	for name in a b c d e f g h; do charged="$charged $(counter "$round$name" device_used)"; done
	go_on >&7
	for job in $jobs; do wait "$job" || fail "one has failed: $(cat "$scratch"/[a-h])"; done
	for bytes in $charged; do [ "$bytes" = $((8 << 20)) ] || off "charged:$charged"; done
}
undisturbed are_charged_their_own

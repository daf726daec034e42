#!/bin/sh
# SPDX-License-Identifier: MIT
# Jobs start at once and want more than there is. None is refused, although none knows the memory of
# the other jobs yet. Judged by how they end, and by the books of the software GPU.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SOFTGPU_MEMORY=96M SOFTGPU_CONTEXT_MEMORY=8M

# begins JOB COUNT MIB: which holds so many blocks until it is stopped
begins() {
	rm -f "$scratch/$1.here"
	"$spillway" run --softgpu --quiet --name "$1" "$build/tests/e2e/allocate" --mib "$3" --count "$2" --ready "$scratch/$1.here" \
		--until "$scratch/stop" >"$scratch/$1" 2>&1 &
}

# A job makes its context at the moment in which another has filled the GPU, which has no peer
# record yet. What is given too late on a busy machine is refused.
new_beside_full() {
	rm -f "$scratch/in" "$scratch/new.here" "$scratch/stop"
	mkfifo "$scratch/in"
	"$spillway" run --softgpu --quiet --name new "$build/tests/e2e/guest" init "wait:$scratch/new.here" context alloc:4:2 free \
		<"$scratch/in" >"$scratch/new" 2>&1 &
	new=$!
	exec 7>"$scratch/in"
	until_true $patience test -e "$scratch/new.here" || fail "new: not ready: $(cat "$scratch/new")"
	begins full 11 8
	full=$!
	until [ -e "$scratch/full.here" ] || ! kill -0 $full 2>/dev/null; do :; done
	echo >&7
	status=0
	wait $new || status=$?
	left=$(held_by "$(pid_of full)")
	touch "$scratch/stop"
	wait $full || fail "full: $(cat "$scratch/full")"
	has full "$(cat "$scratch/full")" 'bad=0'
	[ $status -eq 0 ] && [ "$(field context "$(cat "$scratch/new")")" = 0 ] || off "new is refused: $(cat "$scratch/new")"
	[ "$left" -lt $((96 * mib)) ] || fail "full has given nothing, and has $left bytes"
}
undisturbed new_beside_full

# Three of 60 %.
three() {
	rm -f "$scratch/stop"
	jobs=""
	for name in one two three; do
		begins $name 14 4
		jobs="$jobs $name:$!"
	done
	are_decided() {
		for job in $jobs; do [ -e "$scratch/${job%:*}.here" ] || ! kill -0 "${job#*:}" 2>/dev/null || return 1; done
	}
	until_true $patience are_decided || fail "one has not got its memory: $(cat "$scratch/one" "$scratch/two" "$scratch/three")"
	touch "$scratch/stop"
	refused=""
	for job in $jobs; do wait "${job#*:}" || refused="$refused ${job%:*}"; done
	[ -z "$refused" ] || off "refused:$refused: $(cat "$scratch/one" "$scratch/two" "$scratch/three")"
	for name in one two three; do has $name "$(cat "$scratch/$name")" 'bad=0'; done
}
undisturbed three

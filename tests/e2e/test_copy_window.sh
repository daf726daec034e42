#!/bin/sh
# SPDX-License-Identifier: MIT
# A program leaves no moment to move memory for a while. For example, a stream waits for a word of
# the host, a host function blocks, a thread stays inside a call, or a capture is open. Its calls
# return all the same, its capture stays valid, stat says why the move is pending, and afterwards
# memory moves.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
program=
limit=$((12 * mib))

# said WORD: the program's next line
said() {
	read -r line <&9 || fail "$case: ended before '$1': $(cat "$scratch/errors")"
	same "$case" "$1" "$line"
}
# pends WORD...: one of these reasons
pends() {
	now=$(counter "$case" move_pending)
	for word in "$@"; do
		[ "$now" != "$word" ] || return 0
	done
	return 1
}
reaches_limit() {
	until_true $patience device_within $limit ||
		fail "$case: $(device_bytes) bytes stay on the device; pending: $(counter "$case" move_pending)"
}

for case in value function inside global thread relaxed; do
	limit_file "$scratch/copy_window.ini" $((128 * mib))
	rm -f "$scratch/to" "$scratch/from"
	mkfifo "$scratch/to" "$scratch/from"
	"$spillway" run --softgpu --quiet --name $case --config "$scratch/copy_window.ini" "$build/tests/e2e/copy_window" $case \
		<"$scratch/to" >"$scratch/from" 2>"$scratch/errors" &
	program=$!
	exec 8>"$scratch/to" 9<"$scratch/from"
	said open
	limit_file "$scratch/copy_window.ini" $limit
	case $case in
	value | function) reasons="work" ;;
	inside) reasons="inside work" ;;
	*) reasons="capture" ;;
	esac
	# shellcheck disable=SC2086 # words
	until_true $patience pends $reasons ||
		fail "$case: expected the move to wait for: $reasons; got $(counter $case move_pending)"
	[ "$(device_bytes)" -gt $limit ] || fail "$case: memory moved although it may not"
	echo go >&8
	case $reasons in
	capture)
		said replay
		# Between the capture and the replay.
		reaches_limit
		echo go >&8
		;;
	esac
	said over
	reaches_limit
	until_true $patience counter_is $case move_pending - || fail "$case: still pending: $(counter $case move_pending)"
	echo go >&8
	said ok
	exec 8>&-
	wait $program || fail "$case: exit status $?: $(cat "$scratch/errors")"
	exec 9<&-
	[ "$(counter $case demotions)" -gt 0 ] || fail "$case: no demotion is counted"
done

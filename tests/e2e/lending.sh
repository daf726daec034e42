# SPDX-License-Identifier: MIT
# Sourced by the tests of memory that changes hands, after elastic.sh.
# shellcheck shell=sh disable=SC2154
moves=$build/tests/e2e/moves

# starts JOB MIB
starts() {
	"$spillway" run --softgpu --quiet --name "$1" "$moves" --mode one --mib "$2" --until "$scratch/$1.stop" \
		>"$scratch/$1" 2>"$scratch/$1.errors" &
}
# ends JOB MIB PID: right
ends() {
	touch "$scratch/$1.stop"
	wait "$3" || fail "$1: exit status $?: $(cat "$scratch/$1.errors")"
	got=$(cat "$scratch/$1")
	steps=$(printf '%s\n' "$got" | sed -n 's/^steps=\([0-9,]*\) .*/\1/p')
	same "$1" "$(SOFTGPU_KERNEL_TIME_US=0 SOFTGPU_STATE_DIR="$scratch/alone" on_softgpu "$moves" --mode one --mib "$2" --steps "$steps")" "$got"
}
mkdir -p "$scratch/alone"

# late WHAT: another job has given its memory too late, as happens on a busy machine; the program
# that asked has ended before the next try
late() {
	exec 8>&-
	wait "$driven" || true
	off "$*"
}
# is_given COMMAND...: as wants 0, where memory of another job is refused if it comes too late
is_given() {
	echo "$*" >&8
	read -r answer <&9 || answer=$(cat "$scratch/driven-errors")
	[ "$answer" = 0 ] || late "$*: $answer"
}

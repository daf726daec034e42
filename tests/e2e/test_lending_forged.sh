#!/bin/sh
# SPDX-License-Identifier: MIT
# One peer record claims all memory all the time, and one process is stopped while its memory is
# asked for. A working job keeps the memory that it is entitled to, goes on, and computes the same
# results as alone. Judged by the books of the software GPU.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/lending.sh
. tests/e2e/lending.sh
export SOFTGPU_MEMORY=96M SOFTGPU_KERNEL_TIME_US=2000

# goes_on JOB: launches more than it has
goes_on() {
	before=$(counter "$1" launches)
	more() { counter_at_least "$1" launches $((before + 20)); }
	until_true $patience more "$1" || fail "$1 does not go on: $(cat "$scratch/$1.errors")"
}

starts works 64
works=$!
until_true $patience counter_at_least works launches 20 || fail "works does not begin: $(cat "$scratch/works.errors")"
pid=$(pid_of works)
uuid=$("$spillway" stat works --json | sed 's/.*"uuid":"\([^"]*\)".*/\1/')
"$build/tests/e2e/forge_record" "$uuid" 1 2>"$scratch/forge" &
forger=$!
# Of two that both want all, each is entitled to half, less the margin.
claimed() {
	if built_in events; then
		"$spillway" events --since @0 works | grep -q '  yield  bytes '
	else
		counter_at_least works host_used 1
	fi
}
until_true $patience claimed || fail "works: a claim was not looked at: $("$spillway" stat works)"
# A block that the program frees and allocates anew is nobody's for a moment.
most_held() {
	for _ in 1 2 3 4 5; do held_by "$pid"; done | sort -n | tail -n 1
}
# Where a busy machine does not run it for long it counts as idle, and gives more.
keeps_its_part() {
	least=$(most_held)
	for _ in 1 2 3 4 5 6 7 8; do
		goes_on works
		held=$(most_held)
		[ "$held" -ge "$least" ] || least=$held
	done
	[ "$least" -ge $((36 * mib)) ] || off "works: only $least bytes were left to it"
}
undisturbed keeps_its_part
kill -KILL $forger
wait $forger 2>/dev/null || true
# It is gone, and so is the claim.
back() { counter_is works host_used 0; }
until_true $patience back || fail "works: $(counter works host_used) bytes stay on the host: $("$spillway" stat works)"
ends works 64 $works

# Stopped while it is asked: the other goes on meanwhile, and has its memory in the end.
printf '[gpu]\nidle_yield = 300ms\n' >"$scratch/idle.ini"
start_driven idle "$scratch/idle.ini"
wants 0 alloc a $((72 * 1024))
wants 0 fill a 7
idle=$(pid_of idle)
sleep 1
kill -STOP "$idle"
starts new 64
new=$!
until_true $patience counter_at_least new launches 20 || fail "new does not begin: $(cat "$scratch/new.errors")"
goes_on new
kill -CONT "$idle"
all_there() { counter_is new host_used 0; }
until_true $patience all_there || fail "new: $(counter new host_used) bytes stay on the host"
wants 0 check a 7
ends new 64 $new
end_driven

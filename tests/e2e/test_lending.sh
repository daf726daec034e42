#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory changes hands. An idle job's memory leaves the device while another job claims it. It comes
# back with the job's next call as far as there is room. Judged by the books of the software GPU.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/lending.sh
. tests/e2e/lending.sh
export SOFTGPU_MEMORY=96M SOFTGPU_KERNEL_TIME_US=2000

# While nobody claims it an idle job keeps its memory.
printf '[gpu]\nidle_yield = 300ms\n' >"$scratch/idle.ini"
start_driven idle "$scratch/idle.ini"
for name in a b c; do
	wants 0 alloc $name $((24 * 1024))
	wants 0 fill $name 7
done
sleep 1
same 'moves of an idle job alone' 0 "$(counter idle demotions)"
idle=$(pid_of idle)

# Who waits for a kernel is not idle, however long it takes.
wants 0 block
wants 0 mix_blocked a b 1
starts beside 8
beside=$!
tells() { [ "$(counter idle idle)" = no ]; }
until_true $patience tells || fail "idle: whether it is idle: $(counter idle idle)"
sleep 1
same 'idle while a kernel is in flight' no "$(counter idle idle)"
wants 0 unblock
until_true $patience counter_is idle idle yes || fail "idle: whether it is idle when nothing is in flight: $(counter idle idle)"
same 'moves of an idle job of which nobody claims anything' 0 "$(counter idle demotions)"
ends beside 8 $beside
wants 0 fill a 7

# told JOB EVENT: bytes of all such events
told() {
	"$spillway" events --since @0 "$1" --json | grep "\"event\":\"$2\"" | sed 's/.*"bytes":\([0-9]*\).*/\1/' | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}
notes() { [ "$(told "$1" "$2")" -gt "${3:-0}" ]; }
# tells_of_it JOB: both tell of it in events, of no more than they had, or have
tells_of_it() {
	until_true $patience notes idle yield "$given" || fail "idle: no event of what it gave: $("$spillway" events --since @0 idle | tail -5)"
	until_true $patience notes "$1" claim || fail "$1: no event of its claim: $("$spillway" events --since @0 "$1" | tail -5)"
	given=$(($(told idle yield) - given))
	granted=$(told "$1" grant)
	[ "$given" -le $((72 * mib)) ] || fail "idle tells of $given bytes that it gave, and had $((72 * mib))"
	[ "$granted" -le $((64 * mib)) ] || fail "$1 tells of $granted bytes that it was given, and has $((64 * mib))"
}
# gives_to JOB: it is idle, somebody else is not: the other has all on the device; when that has
# ended what it gave comes back
gives_to() {
	! built_in events || given=$(told idle yield)
	starts "$1" 64
	new=$!
	until_true $patience counter_at_least "$1" launches 10 || fail "$1 does not begin: $(cat "$scratch/$1.errors")"
	before=$(counter "$1" launches)
	all_there() { [ "$(counter "$1" host_used)" = 0 ] && counter_at_least "$1" launches $((before + 20)); }
	until_true $patience all_there "$1" || fail "$1: $(counter "$1" host_used) bytes stay on the host; $("$softgpu/softgpu-truth")"
	same 'promised, and what was there before' 0 "$(counter "$1" demotions)"
	[ "$(held_by "$idle")" -lt $((40 * mib)) ] || fail "the idle one keeps $(held_by "$idle") bytes"

	# stat, top and metrics say so.
	until_true $patience counter_at_least idle lent $((32 * mib)) || fail "idle: stat says that $(counter idle lent) bytes are lent"
	same "$1 waits" none "$(counter "$1" waits)"
	has 'stat of the idle job' "$("$spillway" stat idle)" ENTITLED
	has 'stat of the idle job' "$("$spillway" stat idle)" 'lent to other jobs: no data is lost, and its next call brings it back'
	has 'top' "$("$spillway" top idle)" ' lent '
	metrics=$("$spillway" stat --format prometheus)
	lent=$(printf '%s\n' "$metrics" | sed -n 's/^spillway_lent_bytes{spillway_job="idle",.*} //p')
	[ "$lent" -ge $((32 * mib)) ] || fail "idle: metrics say that $lent bytes are lent"
	printf '%s\n' "$metrics" | grep -q "^spillway_claim_wait{spillway_job=\"$1\",.*reason=\"none\"} 1" || fail "$1: metrics do not say that it waits for nothing"
	if built_in events; then tells_of_it "$1"; else granted=1; fi

	# Its next call brings back what has room, and all of it once the other has gone.
	wants 0 check a 7
	ends "$1" 64 $new
	wants 0 check b 7
	back() { [ "$(held_by "$idle")" -ge $((72 * mib)) ]; }
	until_true $patience back || fail "idle: only $(held_by "$idle") bytes came back: $("$spillway" stat idle)"
	wants 0 check c 7
}
# Who is asked and not run for 50 ms, as happens on a busy machine, is passed over; what it gives
# then is in no event of a grant. It is not so each time.
granted=0
for round in 1 2 3 4 5 6; do
	gives_to "new$round"
	[ "$granted" -eq 0 ] || break
done
[ "$granted" -gt 0 ] || fail "no grant in six changes of hands"
end_driven

# What must be on the device, on one that is full of what an idle job holds: none of it is refused.
mkfifo "$scratch/in"
"$spillway" run --softgpu --quiet --name full --idle-yield 300ms "$build/tests/e2e/guest" init context \
	alloc:8:11 "wait:$scratch/full.here" free <"$scratch/in" >"$scratch/full" 2>&1 &
full=$!
exec 7>"$scratch/in"
until_true $patience test -e "$scratch/full.here" || fail "full: not ready: $(cat "$scratch/full")"
idle=$(pid_of full)
same 'what the idle job holds' $((88 * mib)) "$(held_by "$idle")"
knows_idle() { [ "$(counter full idle)" = yes ]; }
# needs SETTING MIB COMMAND: has that much on the device at once
needs() {
	printf '[gpu]\n%s\n' "$1" >"$scratch/needs.ini"
	start_driven "needs$2" "$scratch/needs.ini"
	is_given alloc a $(($2 * 1024))
	wants 0 fill a 5
	if [ -n "${3:-}" ]; then is_given "$3" a; fi
	there=$(held_by "$(pid_of "needs$2")")
	[ "$there" -ge $(($2 * mib)) ] || fail "needs: $there bytes are there"
	wants 0 check a 5
	end_driven
}
# A context, of 12 MiB where 8 are left.
printf '[gpu]\n' >"$scratch/context.ini"
start_driven beside "$scratch/context.ini"
until_true $patience knows_idle || fail "full: idle is $(counter full idle)"
end_driven
needs_context() {
	start_driven context "$scratch/context.ini" SOFTGPU_CONTEXT_MEMORY=12M
	is_given sync
	end_driven
}
undisturbed needs_context
undisturbed needs 'pin_new = yes' 24
# Made on the host and then opened to others: it comes to the device and stays.
! built_in ipc || undisturbed needs '' 64 ipc
echo >&7
wait $full || fail "full: $(cat "$scratch/full")"

#!/bin/sh
# Memory changes hands: what an idle job has leaves the device while another job claims it, and
# comes back with its next call as far as there is room. Judged by the books of the software GPU.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SOFTGPU_MEMORY=96M SOFTGPU_KERNEL_TIME_US=2000
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
	same "$1" "$(SOFTGPU_STATE_DIR="$scratch/alone" on_softgpu "$moves" --mode one --mib "$2" --steps "$steps")" "$got"
}
# held_by PID: bytes on the device, by the software GPU's books
held_by() {
	"$softgpu/softgpu-truth" | awk -v pid="$1" '$1 == "0" && $2 == pid { print $3 }'
}
mkdir -p "$scratch/alone"

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

# It is idle, somebody else is not: the other has all on the device.
starts new 64
new=$!
until_true $patience counter_at_least new launches 10 || fail "new does not begin: $(cat "$scratch/new.errors")"
all_there() { [ "$(counter new host_used)" = 0 ] && counter_at_least new launches $((before + 20)); }
before=$(counter new launches)
until_true $patience all_there || fail "new: $(counter new host_used) bytes stay on the host; $("$softgpu/softgpu-truth")"
same 'promised, and what was there before' 0 "$(counter new demotions)"
[ "$(held_by "$idle")" -lt $((40 * mib)) ] || fail "the idle one keeps $(held_by "$idle") bytes"

# stat says so, and both tell of it.
until_true $patience counter_at_least idle lent $((32 * mib)) || fail "idle: stat says that $(counter idle lent) bytes are lent"
same 'new waits' none "$(counter new waits)"
has 'stat of the idle job' "$("$spillway" stat idle)" ENTITLED
# notes JOB EVENT
notes() { "$spillway" events "$1" | grep -q "  $2  bytes "; }
until_true $patience notes idle yield || fail "idle: no event of what it gave: $("$spillway" events idle | tail -5)"
until_true $patience notes new claim || fail "new: no event of its claim: $("$spillway" events new | tail -5)"

# Its next call brings back what has room, and all of it once the other has gone.
wants 0 check a 7
ends new 64 $new
wants 0 check b 7
back() { [ "$(held_by "$idle")" -ge $((72 * mib)) ]; }
until_true $patience back || fail "idle: only $(held_by "$idle") bytes came back: $("$spillway" stat idle)"
wants 0 check c 7
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
# is_given COMMAND...: as wants 0; what others give too late, on a busy machine, is refused
is_given() {
	echo "$*" >&8
	read -r answer <&9 || answer=$(cat "$scratch/driven-errors")
	[ "$answer" = 0 ] || {
		exec 8>&-
		wait "$driven" || true
		off "$*: $answer"
	}
}
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
undisturbed needs '' 64 ipc
echo >&7
wait $full || fail "full: $(cat "$scratch/full")"

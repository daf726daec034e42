#!/bin/sh
# SPDX-License-Identifier: MIT
# pause --evict: the memory leaves the device, and other jobs use the room. resume brings it back,
# with the bits it had. Memory that cannot go is named, and memory that does not go in time is a
# failure.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
driven='' runner=''
SOFTGPU_MEMORY=160M
export SOFTGPU_MEMORY
said=$scratch/said

# evicts JOB [OPTION...] | fails JOB REASON [OPTION...]: what is said in $said, stderr too
evicts() {
	job=$1
	shift
	"$spillway" pause --evict --timeout $patience "$@" "$job" >"$said" 2>&1 ||
		fail "$job: pause --evict: $(cat "$said")"
}
fails() {
	job=$1 reason=$2
	shift 2
	! "$spillway" pause --evict --timeout $patience "$@" "$job" >"$said" 2>&1 || fail "$job: evicted: $(cat "$said")"
	grep -Eq "$reason" "$said" || fail "$job: expected /$reason/: $(cat "$said")"
}
resumes() {
	"$spillway" resume --timeout $patience "$1" >"$said" 2>&1 || fail "$1: resume: $(cat "$said")"
}
# is_back JOB BYTES: nothing on the host, all on the device
is_back() {
	until_true $patience counter_is "$1" host_used 0 || fail "$1: $(counter "$1" host_used) bytes stay on the host"
	device_at_least "$2" || fail "$1: $(device_bytes) bytes on the device, expected $2"
}

# A training whose memory is needed by another program for a while ends with the weights of one that
# was left alone.
alone=$(field checksum "$(on_softgpu env SOFTGPU_STATE_DIR="$scratch" "$build/clients/train_mlp" --quiet --scale 2 --epochs 12)")
[ -n "$alone" ] || fail 'the training alone has no checksum'
SOFTGPU_KERNEL_TIME_US=500 "$spillway" run --softgpu --quiet --name train "$build/clients/train_mlp" --quiet --scale 2 --epochs 12 \
	>"$scratch/train" &
runner=$!
until_true $patience counter_at_least train launches 1000 || fail 'the training does not begin'
other() { on_softgpu "$build/tests/e2e/allocate" --mib 8 --count 16 >"$scratch/other"; }
other
has 'the device is full while the training is on it' "$(cat "$scratch/other")" 'refused='
! grep -q 'refused=0' "$scratch/other" || fail 'the other program needs no room that the training has'
held=$(device_bytes)
[ "$held" -ge $((32 * mib)) ] || fail "the training has only $held bytes on the device"
evicts train
grep -q '^gpu 0: evicted, .* on the host, 0 B on the GPU$' "$said" || fail "what is said of it: $(cat "$said")"
same 'bytes on the device' 0 "$(device_bytes)"
same 'limit_set, as before' null "$(counter train limit_set)"
has stat "$("$spillway" stat train)" 'gpu 0: evicted by pause --evict, 0 B on the GPU'
launched=$(counter train launches)
other
has 'another program has its memory' "$(cat "$scratch/other")" 'refused=0'
! grep -q WRONG "$scratch/other" || fail 'the other program has wrong bytes'
same 'launches while paused' "$launched" "$(counter train launches)"
same 'bytes on the device, still' 0 "$(device_bytes)"
# Again, it changes nothing.
evicts train
grep -q '^train is paused already$' "$said" || fail "paused twice: $(cat "$said")"
same 'bytes on the device, evicted twice' 0 "$(device_bytes)"
resumes train
until_true $patience counter_at_least train promoted_bytes $(($(counter train demoted_bytes) / 2)) ||
	fail "$(counter train promoted_bytes) of $(counter train demoted_bytes) bytes came back"
has 'counted' "$("$spillway" stat train --json)" '"evicted":0'
wait $runner || fail 'the training failed'
same 'checksum' "$alone" "$(field checksum "$(cat "$scratch/train")")"

# What is allocated meanwhile goes to the host, is not refused, and the program is told what it was
# told before.
ini=$scratch/evict.ini
limit_file "$ini" $((64 * mib)) 'spill_after = 3'
start_driven meanwhile "$ini"
wants 0 alloc a 16384
wants 0 alloc b 20
wants 0 alloc c 8192 create
wants 0 alloc d 4096 async
for name in a b c d; do wants 0 fill $name 7; done
tell info
info=$answer
device_at_least $((28 * mib)) || fail "meanwhile: $(device_bytes) bytes on the device"
evicts meanwhile
same 'meanwhile: bytes on the device' 0 "$(device_bytes)"
wants "$info" info
wants 0 alloc e 8192
wants 0 alloc f 4096 create
wants 0 alloc g 100
for name in e f g; do wants 0 fill $name 8; done
same 'meanwhile: new bytes on the device' 0 "$(device_bytes)"
[ "$(counter meanwhile spill_reason)" = evicted ] || fail "why it is there: $(counter meanwhile spill_reason)"
for name in a b c d; do wants 0 check $name 7; done
# A launch waits for resume.
echo 'mix a e 5 3' >&8
until_true $patience counter_is meanwhile paused 1 || fail 'the launch does not wait'
resumes meanwhile
read -r answer <&9
same 'the launch that waited' 0 "$answer"
is_back meanwhile $((40 * mib))
for name in b c d; do wants 0 check $name 7; done
for name in f g; do wants 0 check $name 8; done
end_driven

# What must stay is said; all else goes.
limit_file "$ini" $((64 * mib))
start_driven pinned "$ini"
wants 0 alloc a 16384
wants 0 alloc b 16384
wants 0 fill a 5
wants 0 fill b 6
wants 0 memops a
evicts pinned
grep -q 'on the host, 16.0 MiB on the GPU (exported, registered or pinned memory cannot leave the GPU)$' "$said" || fail "pinned: $(cat "$said")"
same 'pinned: bytes on the device' $((16 * mib)) "$(device_bytes)"
has 'pinned: stat' "$("$spillway" stat pinned)" 'gpu 0: stays on the GPU: exported, registered or pinned memory cannot leave the GPU (pinned)'
wants 0 check a 5
wants 0 check b 6
resumes pinned
is_back pinned $((32 * mib))
end_driven

# Evicted again while it comes back: that all had left but what must stay is no reason for what has
# returned since.
limit_file "$ini" $((160 * mib)) 'demote_deadline = 1ms'
start_driven again "$ini" SOFTGPU_HOST_BANDWIDTH=200M
wants 0 alloc a 8192
wants 0 memops a
wants 0 alloc b 131072
wants 0 fill b 4
evicts again
has 'again: what stays' "$(cat "$said")" ', 8.00 MiB on the GPU (exported, registered or pinned memory cannot leave the GPU)'
half_way=
for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
	promoted=$(counter again promoted_bytes)
	"$spillway" resume again >/dev/null 2>&1 &
	runner=$!
	until_true $patience counter_at_least again promoted_bytes $((promoted + 16 * mib)) || fail 'again: nothing comes back'
	# before it lets launches go on; on a busy machine it has, now and then
	! kill -KILL $runner 2>/dev/null || half_way=yes
	wait $runner || true
	evicts again
	[ -z "$half_way" ] || break
done
[ -n "$half_way" ] || fail 'again: resume is over each time'
has 'again: what stays, once more' "$(cat "$said")" ', 8.00 MiB on the GPU (exported, registered or pinned memory cannot leave the GPU)'
resumes again
is_back again $((136 * mib))
wants 0 check b 4
end_driven

# The host holds what it may; the rest stays, and what is new has its place on the device.
limit_file "$ini" $((64 * mib)) 'host_memory = 8MiB'
start_driven host "$ini"
wants 0 alloc a 32768
wants 0 fill a 9
fails host '^spillway: gpu 0: 24.0 MiB of .* stay on the GPU: the host has no room: raise it with --host-memory, or end other programs$'
same 'host: why' host_full "$(counter host held_reason)"
same 'host: bytes on the device' $((24 * mib)) "$(device_bytes)"
wants 0 alloc b 8192
wants 0 alloc c 4096 create
wants 0 check a 9
limit_file "$ini" $((64 * mib)) 'host_memory = 64MiB'
until_true $patience device_within 0 || fail "the host has room, but $(device_bytes) bytes stay"
resumes host
is_back host $((44 * mib))
wants 0 check a 9
end_driven

# Work that does not end keeps the memory; what is said is why, and it goes when the work has.
start_driven work "$ini"
wants 0 alloc a 16384
wants 0 fill a 3
wants 0 block
wants 0 mix_blocked a a 5
fails work '^spillway: gpu 0: 16.0 MiB of .* not moved in time: work on the GPU does not end$' --timeout 5
wants 0 unblock
evicts work
same 'work: bytes on the device' 0 "$(device_bytes)"
resumes work
end_driven

# Resumed half way: what has left comes back, and who waits for the eviction is told.
limit_file "$ini" $((128 * mib)) 'demote_deadline = 1ms'
start_driven half "$ini" SOFTGPU_HOST_BANDWIDTH=16M
wants 0 alloc a 131072
wants 0 fill a 4
"$spillway" pause --evict half >"$said" 2>&1 &
runner=$!
until_true $patience counter_at_least half demotions 1 || fail 'half: nothing is demoted'
"$spillway" resume half >/dev/null || fail 'half: resume fails'
! wait $runner || fail "half: evicted all the same: $(cat "$said")"
grep -q "job 'half' was resumed meanwhile" "$said" || fail "half: $(cat "$said")"
is_back half $((128 * mib))
[ "$(counter half demoted_bytes)" -lt $((128 * mib)) ] || fail 'half: all had left before it was resumed'
wants 0 check a 4
# And killed half way: nothing is left, and nobody waits for it.
demotions=$(counter half demotions)
"$spillway" pause --evict half >"$said" 2>&1 &
runner=$!
until_true $patience counter_at_least half demotions $((demotions + 1)) || fail 'half: nothing is demoted again'
kill -KILL "$(pid_of half)"
! wait $runner || fail "half: evicted after its end: $(cat "$said")"
grep -q "job 'half' has ended" "$said" || fail "killed: $(cat "$said")"
until_true $patience device_within 0 || fail "killed: $(device_bytes) bytes on the device"
case $("$spillway" stat half) in *'evicted by pause'*) fail 'an ended job is evicted' ;; esac
exec 8>&- 9<&-
wait "$driven" || true

# Progress is shown to who looks at a terminal, in one line.
start_driven shown "$ini" SOFTGPU_HOST_BANDWIDTH=16M
wants 0 alloc a 131072
wants 0 fill a 4
script -qec "$spillway pause --evict shown" /dev/null </dev/null >"$said" || fail "shown: $(cat "$said")"
grep -q 'gpu 0: [0-9.]* MiB still to be moved' "$said" || fail "no progress is shown: $(cat "$said")"
grep -q 'moved \[##*\.*\]' "$said" || fail "no bar that has begun: $(cat "$said")"
script -qec "$spillway resume shown" /dev/null </dev/null >"$said" || fail "shown: resume: $(cat "$said")"
grep -q 'gpu 0: [0-9.]* MiB still to be moved back \[##*\.*\]' "$said" || fail "no progress back is shown: $(cat "$said")"
sed 's/.*\r\x1b\[K//' "$said" | tr -d '\r' >"$scratch/left"
grep -q '^gpu 0: limit ' "$scratch/left" || fail "what holds then is not said: $(cat "$said")"
! grep -q 'to be moved' "$scratch/left" || fail "the progress is left standing: $(cat "$said")"
is_back shown $((128 * mib))
end_driven

# Several processes, and several GPUs, of one job.
hold() { # hold READY OPTION...
	ready=$scratch/$1
	shift
	SOFTGPU_DEVICES=2 "$spillway" run --softgpu --quiet --name several --join "$build/tests/e2e/allocate" --mib 8 --count 3 \
		--hold-ms 600000 --ready "$ready" "$@" >/dev/null 2>"$scratch/several-errors" &
	holders="$holders $!"
	until_true $patience [ -e "$ready" ] || fail "several: $(cat "$scratch/several-errors")"
}
on_all() { "$softgpu/softgpu-truth" | awk 'NR > 1 { sum += $3 } END { print sum + 0 }'; }
all_is() { [ "$(on_all)" -eq "$1" ]; }
rm -rf "$SOFTGPU_STATE_DIR"
mkdir "$SOFTGPU_STATE_DIR" # another machine
holders=''
hold one
hold two
hold three --device 1
all_is $((72 * mib)) || fail "several: $(on_all) bytes on all devices"
evicts several
[ "$(grep -c '^gpu [01]: evicted, .*, 0 B on the GPU$' "$said")" -eq 2 ] || fail "several: $(cat "$said")"
all_is 0 || fail "several: $(on_all) bytes are left"
resumes several
until_true $patience all_is $((72 * mib)) || fail "several: $(on_all) bytes are back"
# shellcheck disable=SC2086 # a list of numbers
kill $holders
wait || true

# Memory that cannot move: the job is paused, and it is said why its memory stays.
limit_file "$ini" $((64 * mib)) 'spill = managed'
start_driven fixed "$ini"
wants 0 alloc a 16384
fails fixed '^spillway: gpu 0: 16.0 MiB of .* stay on the GPU: memory made by spill = managed or pinned cannot move$'
same 'fixed: bytes on the device' $((16 * mib)) "$(device_bytes)"
wants 0 alloc b 16384
wants 0 fill b 2
resumes fixed
wants 0 check b 2
end_driven

# A job that nobody named has the driver's own memory.
under_shim "$build/tests/e2e/allocate" --mib 16 --count 1 --hold-ms 600000 --ready "$scratch/ready" >/dev/null &
until_true $patience [ -e "$scratch/ready" ] || fail 'the program without a name does not begin'
unnamed=$("$spillway" stat --format csv,noheader | sed -n 's/^\(allocate-[0-9]*\),.*/\1/p')
runner=${unnamed#allocate-}
fails "$unnamed" "^spillway: gpu 0: 16.0 MiB of .* stay on the GPU: the job has no name and no limit, so its memory is the driver's own"
kill "$runner"
wait || true

# One that was named has it where the kind of allocation is one that does not move, and is told
# that.
rm "$scratch/ready"
"$spillway" run --softgpu --quiet --name named "$build/tests/e2e/allocate" --api managed --mib 16 --count 1 --hold-ms 100000 \
	--ready "$scratch/ready" >/dev/null 2>&1 &
runner=$!
until_true $patience [ -e "$scratch/ready" ] || fail 'the program with a name does not begin'
fails named '^spillway: gpu 0: 16.0 MiB of .* stay on the GPU: it was allocated where nothing moves: .*managed memory'
kill "$runner"
wait || true

# Room that evicted memory leaves is no longer owed to its job; with resume it is.
limit_file "$ini" $((96 * mib))
start_driven owner "$ini"
wants 0 alloc a 81920
"$spillway" run --softgpu --quiet --name grower --memory 32MiB --memory-max 160MiB "$build/tests/e2e/allocate" --mib 8 --count 14 \
	--hold-ms 600000 --ready "$scratch/grower" >/dev/null 2>"$scratch/grower-errors" &
runner=$!
until_true $patience [ -e "$scratch/grower" ] || fail "grower: $(cat "$scratch/grower-errors")"
evicts owner
until_true $patience counter_is grower host_used 0 || fail "grower: $("$spillway" stat grower)"
resumes owner
until_true $patience counter_is owner host_used 0 || fail "owner: $("$spillway" stat)"
# What its limit promises and it does not use is lent, until it needs it.
keeps() { [ "$(counter grower device_used)" -le $(($1 * mib)) ]; }
until_true $patience keeps 80 || fail "grower keeps $(counter grower device_used) bytes"
wants 0 alloc b 16384
until_true $patience counter_is owner host_used 0 || fail "owner: $("$spillway" stat)"
until_true $patience keeps 64 || fail "grower keeps $(counter grower device_used) bytes"
kill $runner
wait $runner || true
end_driven

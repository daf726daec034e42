#!/bin/sh
# SPDX-License-Identifier: MIT
# Traits of some drivers or machines (SOFTGPU_TRAITS) change nothing that a program under a limit
# sees. Each trait without a test of its own is run here.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/moving.sh
. tests/e2e/moving.sh
driven=
ini=$scratch/traits.ini

# works JOB [NAME=VALUE...]: kernels by their own handles, a graph, and memory that goes and comes
works() {
	job=$1
	limit_file "$ini" $((64 * mib))
	shift
	start_driven "$job" "$ini" ELASTIC_LIBRARY=1 "$@"
	for name in a b c d; do
		wants 0 alloc $name 8192
		wants 0 fill $name 7
	done
	wants 0 mix a b 1 40
	wants 0 graph c d
	limit_file "$ini" $((12 * mib))
	until_true $patience device_within $((12 * mib)) || fail "$job: $(device_bytes) bytes on the device"
	wants 0 mix b a 2 40
	wants 0 replay 5
	wants 0 free d
	limit_file "$ini" $((64 * mib))
	until_true $patience counter_is "$job" host_used 0 || fail "$job: $(counter "$job" host_used) bytes stay on the host"
	# Memory kept ready counts in what is told, for a second.
	until_true $patience counter_is "$job" device_pool 0 || fail "$job: $(counter "$job" device_pool) bytes are kept ready"
	tell info
	printf '%s ' "$answer" >"$scratch/$job.saw"
	tell sum a b c
	echo "$answer" >>"$scratch/$job.saw"
	end_driven
}
works without
for trait in kernel-crashes slow-memory-info unmap-holds unmap-waits; do
	SOFTGPU_TRAITS=$trait
	export SOFTGPU_TRAITS
	probe_driver
	unset SOFTGPU_TRAITS
	works "with-$trait" SOFTGPU_TRAITS=$trait
	same "$trait" "$(cat "$scratch/without.saw")" "$(cat "$scratch/with-$trait.saw")"
done

# Memory that moves while work is queued, where unmapping waits for that work.
export SOFTGPU_TRAITS=unmap-waits
probe_driver
of_mode threads 40
unset SOFTGPU_TRAITS

# There whoever gives memory back asks first whether anything runs: never a stream that another
# thread destroys meanwhile, whose handle is the driver's to reuse.
SOFTGPU_TRAITS=unmap-waits "$spillway" run --softgpu --name churn --memory 288MiB "$build/tests/e2e/stream_churn" 60000 \
	>"$scratch/churn" 2>"$scratch/churn.errors" || fail "churn: $(cat "$scratch/churn" "$scratch/churn.errors")"
has "what was known" "$(cat "$SPILLWAY_STATE_DIR/driver-probe")" "unmap 600"
! grep "is used after it was destroyed" "$scratch/churn.errors" || fail "a stream that was gone was asked"

# A driver that waits for what runs before memory goes, and has all calls wait meanwhile, is not
# asked to let memory go while a stream waits for what the program does next: spares stay, and what
# is to leave is prepared for nothing. Then all of it goes.
export SOFTGPU_TRAITS=unmap-holds
probe_driver
unset SOFTGPU_TRAITS
limit_file "$ini" $((64 * mib)) "demote_deadline = 1ms"
start_driven held "$ini" SOFTGPU_TRAITS=unmap-holds
for name in a b c; do
	wants 0 alloc $name 8192
	wants 0 fill $name 3
done
wants 0 free a
wants 0 block
wants 0 mix_blocked b b 1
sleep 2 # spares are kept for one
tell info
counter_at_least held device_pool $((8 * mib)) || fail "spares went beside work: $(counter held device_pool)"
limit_file "$ini" $((4 * mib)) "demote_deadline = 1ms"
until_true $patience counter_is held move_pending work || fail "it is not tried: $(counter held move_pending)"
sleep 1
tell info
device_at_least $((16 * mib)) || fail "it has moved beside work"
wants 0 unblock
until_true $patience device_within $((4 * mib)) || fail "held: $(device_bytes) bytes stay on the device"
until_true $patience counter_is held device_pool 0 || fail "held: spares stay: $(counter held device_pool)"
wants 0 check c 3
end_driven

# A kernel that reads the same memory of the host four times gets it once, or four times. Its place
# is what the shim decides by (tests/unit/test_weigh.c).
# undisturbed_reads: fails where memory moved between the two kernels
undisturbed_reads() {
	moves=$(counter "$job" promotions),$(counter "$job" demotions)
	for times in 1 4; do
		before=$(truth fetched_bytes)
		wants 0 mix_table t $times 8192 1 1
		wants 0 sync
		[ $times = 4 ] || once=$(($(truth fetched_bytes) - before))
	done
	often=$(($(truth fetched_bytes) - before))
	[ "$moves" = "$(counter "$job" promotions),$(counter "$job" demotions)" ]
}
# rereads JOB [NAME=VALUE...]: $once and $often are what was fetched
rereads() {
	job=$1
	limit_file "$ini" $((2 * mib))
	shift
	start_driven "$job" "$ini" SOFTGPU_HOST_BANDWIDTH=64G "$@"
	wants 0 alloc b 8192
	wants 0 fill b 1
	wants 0 alloc t 4
	wants 0 table t b b b b
	wants 0 sync
	until undisturbed_reads; do :; done
	end_driven
	[ "$once" -gt 0 ] || fail "$job: nothing is on the host; the test shows nothing"
}
rereads cached
same "cached: it is fetched once" "$once" "$often"
rereads uncached SOFTGPU_TRAITS=uncached-host
[ "$often" -ge $((3 * once)) ] || fail "uncached: $once bytes once, and $often when read four times"

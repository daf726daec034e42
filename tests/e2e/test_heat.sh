#!/bin/sh
# SPDX-License-Identifier: MIT
# After a shrink the memory in use is on the device, in any order of allocation. One case is a hot
# buffer among nine cold ones. The other cases are a working set that shifts, a graph's memory, and
# memory with its addresses in a table on the device. The bytes that kernels fetch from the host
# show where memory is.
# shellcheck disable=SC2086 # names of buffers are words
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
driven=
ini=$scratch/heat.ini
buffers="a b c d e f g h i j"
# What is used counts as hot for about two seconds of work, in which a pause counts as 128 ms at
# most, however slow the machine is: so many seconds, and so many commands of about as long.
cools_after=3 cools_after_commands=24

# begin JOB [NAME=VALUE...]: ten buffers of 8 MiB on the device, each written and used by a kernel
begin() {
	job=$1
	limit_file "$ini" $((128 * mib))
	shift
	start_driven "$job" "$ini" SOFTGPU_HOST_BANDWIDTH=64G SOFTGPU_KERNEL_TIME_US=5000 "$@"
	for name in $buffers; do
		wants 0 alloc $name 8192
		wants 0 fill $name 1
	done
}
used_by_kernels() {
	for name in "$@"; do wants 0 mix "$name" "$name" 1 2; done
	wants 0 sync
}
# for_a_while COMMAND...: again and again while the rest cools, with pauses that count as work
for_a_while() {
	end=$(($(date +%s) + cools_after)) commands=0
	while [ "$(date +%s)" -le $end ] || [ $commands -lt $cools_after_commands ]; do
		wants 0 "$@"
		wants 0 sync
		sleep 0.08
		commands=$((commands + 1))
	done
}
shrink_to() {
	limit_file "$ini" $(($1 * mib))
	until_true $patience device_within $(($1 * mib)) || fail "$job: $(device_bytes) bytes on the device: $(counter "$job" move_pending)"
}
grow() {
	limit_file "$ini" $((128 * mib))
	until_true $patience counter_is "$job" host_used 0 || fail "$job: $(counter "$job" host_used) bytes stay on the host"
}
# fetched COMMAND...: bytes that its kernels get from the host
fetched() {
	before=$(truth fetched_bytes)
	wants 0 "$@"
	wants 0 sync
	got=$(($(truth fetched_bytes) - before))
}
on_device() {
	what=$1
	shift
	fetched "$@"
	[ $got = 0 ] || fail "$job: $what: kernels fetched $got bytes from the host"
}

# One hot, nine cold: the first allocated, the last, one between.
begin one
for hot in a j e; do
	used_by_kernels $buffers
	for_a_while mix $hot $hot 1 8
	shrink_to 16
	on_device "the hot buffer, $hot" mix $hot $hot 2 5
	cold=b
	fetched mix $cold $cold 2 1
	[ $hot != a ] || [ $got -gt 0 ] || fail "the cold buffer is not on the host; the test shows nothing"
	grow
done

# A working set of two that shifts every 100 steps.
set -- $buffers
while [ $# -ge 2 ]; do
	for step in 1 2 3 4 5 6 7 8 9 10; do
		wants 0 mix "$1" "$2" $step 10
		wants 0 sync
	done
	case $1 in
	c | g)
		shrink_to 20
		on_device "the working set, $1 and $2" mix "$1" "$2" 2 5
		grow
		;;
	esac
	shift 2
done
# Without a shrink in between: what is used changes places with what is not.
shrink_to 20
settled() {
	fetched mix c d 3 20
	[ $got = 0 ]
}
until_true $patience settled || fail "a new working set stays on the host: $got bytes in 20 launches"
end_driven

# A program's own pool of 640 MiB: what it uses of that is known by 64 MiB.
limit_file "$ini" $((1024 * mib))
start_driven pool "$ini" SOFTGPU_HOST_BANDWIDTH=64G SOFTGPU_KERNEL_TIME_US=5000
job=pool
wants 0 alloc p $((640 * 1024))
for part in "a 64" "b 320" "c 576"; do
	wants 0 part "${part% *}" p $((${part#* } * 1024)) 8192
	wants 0 fill "${part% *}" 1
	wants 0 mix "${part% *}" "${part% *}" 1 2
done
for_a_while mix a a 1 8
# Its part goes on to where the next is known to begin.
shrink_to 300
on_device "the hot part of a pool" mix a a 2 5
fetched mix c c 2 1
[ $got -gt 0 ] || fail "a cold part of the pool is not on the host"
end_driven

# A graph's memory, while others are used by launches of their own first.
begin graphs
wants 0 graph d i
used_by_kernels $buffers
for_a_while replay 8
shrink_to 18
on_device "a graph's memory" replay 5
end_driven

# Addresses in a table: nobody sees them used, so they are not the coldest.
begin table
wants 0 alloc t 4
wants 0 table t b f i
used_by_kernels a c d e g h j
for_a_while mix_table t 3 8192 1 8
shrink_to 28
on_device "what a table points to" mix_table t 3 8192 1 5
end_driven

# A driver before 12.4, which does not tell how a kernel's parameters lie: the cubin in its fat
# binary does.
SOFTGPU_DRIVER_VERSION=12020
export SOFTGPU_DRIVER_VERSION
probe_driver
unset SOFTGPU_DRIVER_VERSION
begin old SOFTGPU_DRIVER_VERSION=12020 ELASTIC_FAT=1
used_by_kernels $buffers
for_a_while mix a a 1 8
shrink_to 16
on_device "the hot buffer with an old driver" mix a a 0 5
end_driven

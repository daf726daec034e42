#!/bin/sh
# SPDX-License-Identifier: MIT
# A GPU is lent out to the margin: a job has grown into the limits of other jobs. Those jobs still
# get all memory within their limits that cannot be on the host: memory for other processes, arrays,
# contexts, code, memory that is to stay. Judged by the books of the software GPU.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/lending.sh
. tests/e2e/lending.sh
export SOFTGPU_MEMORY=96M

"$spillway" run --softgpu --quiet --name borrower --memory 16MiB --memory-max 100% "$build/tests/e2e/allocate" --mib 4 --count 23 \
	--ready "$scratch/ready" --until "$scratch/stop" >"$scratch/borrower" 2>&1 &
borrower=$!
until_true $patience test -e "$scratch/ready" || fail "the borrower does not begin: $(cat "$scratch/borrower")"
pid=$(pid_of borrower)
# All but a 32nd of the GPU, in pieces of its own memory.
is_lent_out() { [ "$(device_bytes)" -ge $((88 * mib)) ]; }

# owner NAME [NAME=VALUE...]: a job with a limit of 64 MiB on the GPU that is lent out
owner() {
	name=$1
	shift
	until_true $patience is_lent_out || fail "before $name only $(device_bytes) bytes are lent: $("$spillway" stat borrower)"
	[ "$(device_bytes)" -le $((93 * mib)) ] || fail "before $name the margin is lent: $(device_bytes)"
	limit_file "$scratch/$name.ini" 64MiB "$@"
	start_driven "$name" "$scratch/$name.ini" "SOFTGPU_CONTEXT_MEMORY=${context:-0}"
}
# had NAME MIB: all of it is on the device, and the borrower has given what it borrowed
had() {
	there=$(held_by "$(pid_of "$1")")
	[ "$there" -ge $(($2 * mib)) ] || late "$1: $there bytes are on the device"
	[ "$(held_by "$pid")" -le $(((96 - $2) * mib)) ] || fail "the borrower has $(held_by "$pid") bytes beside $1"
	refusals=$(counter "$1" refusals)
	[ "$refusals" = 0 ] || late "$1: $refusals refusals"
	end_driven
}

ipc_memory() {
	owner ipc
	wants 0 alloc a $((48 * 1024))
	wants 0 fill a 5
	is_given ipc a
	wants 0 check a 5
	had ipc 48
}
! built_in ipc || undisturbed ipc_memory

exportable() {
	owner export
	is_given alloc a $((48 * 1024)) export
	wants 0 fill a 7
	wants 0 check a 7
	had export 48
}
undisturbed exportable

pinned() {
	owner pinned 'pin_new = yes'
	for name in a b c; do
		is_given alloc $name $((20 * 1024))
		wants 0 fill $name 6
	done
	for name in a b c; do wants 0 check $name 6; done
	had pinned 60
}
undisturbed pinned

# A context of 8 MiB where 4 are left, and one more beside it.
contexts() {
	context=8M
	owner context
	is_given sync
	until_true $patience is_lent_out || fail "it has not grown again: $("$spillway" stat borrower)"
	is_given context
	had context 16
}
undisturbed contexts

driven_by=arrays
arrays() {
	owner array
	is_given array a word 1024 12288 0
	wants 0 fill a 8
	is_given array b word 1024 1024 3
	wants 0 fill b 9
	wants 0 check a 8
	wants 0 check b 9
	had array 60
}
undisturbed arrays

mipmaps() {
	owner mipmaps
	is_given mipmaps a 1024 8192 99
	wants 0 fill a 3
	wants 0 check a 3
	had mipmaps 42
}
undisturbed mipmaps

# Rows of one byte: what they hold is a 64th of what they take, and what is there when it is asked.
thin() {
	owner thin
	is_given array a byte 1 16384 24
	wants 0 fill a 4
	wants 0 check a 4
	had thin 24
}
undisturbed thin

# Code with a variable, of which the driver alone knows.
module() {
	owner module
	is_given module $((24 * 1024))
	had module 24
}
undisturbed module
driven_by=driven

# Its own bytes are what they were, and it grows again.
until_true $patience is_lent_out || fail "it has not grown again: $("$spillway" stat borrower)"
touch "$scratch/stop"
wait $borrower || fail "the borrower: $(cat "$scratch/borrower")"
has 'the borrower' "$(cat "$scratch/borrower")" 'bad=0'

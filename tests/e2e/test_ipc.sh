#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory of a job that moves is given to other processes by cuIpcGetMemHandle all the same. Memory
# on the host comes back first. Much memory needs few descriptors, and it outlives its giver. A
# process that cannot be reached leads to an error at once.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
ipc=$build/tests/e2e/ipc
export SOFTGPU_MEMORY=3G

# a_case NAME LIMIT
a_case() {
	"$spillway" run --softgpu --quiet --name "$1" --memory "$2" "$ipc" "$1" >"$scratch/out" 2>&1 ||
		fail "$1: $(cat "$scratch/out")"
	# What was given away by a process that ended well leaves no name behind.
	echo "$1"
}

for name in plain freed blocks threads captured with_its_context; do
	a_case $name 512MiB
	left=$(find "$SPILLWAY_STATE_DIR" -name 'share-*')
	[ -z "$left" ] || fail "$name: left behind: $left"
done
a_case demoted 64MiB
has "demoted" "$("$spillway" stat demoted --json)" '"promotions":'
a_case exchanged 256MiB
a_case killed 512MiB
a_case silent 512MiB
(
	# shellcheck disable=SC3045 # dash has it
	ulimit -Sn 256
	a_case much 2GiB
)
SOFTGPU_DEVICES=2 SOFTGPU_STATE_DIR=$scratch/two
export SOFTGPU_DEVICES SOFTGPU_STATE_DIR
mkdir "$SOFTGPU_STATE_DIR"
a_case devices 512MiB
unset SOFTGPU_DEVICES
SOFTGPU_STATE_DIR=$scratch/softgpu

# A device that cannot export memory cannot give it.
SOFTGPU_ATTRIBUTES=HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED=0
export SOFTGPU_ATTRIBUTES
a_case refused 512MiB
has "refused" "$(cat "$scratch/out")" "cannot be shared"
unset SOFTGPU_ATTRIBUTES

# Of another state directory nothing is found, and it is said once.
ELSEWHERE_STATE=$scratch/elsewhere
export ELSEWHERE_STATE
mkdir -m 700 "$ELSEWHERE_STATE"
a_case elsewhere 512MiB
has "elsewhere" "$(cat "$scratch/out")" "another state directory"
same "elsewhere, lines" 1 "$(grep -c "cannot be opened" "$scratch/out")"

# To who does not know Spillway the handle is a strange one; a giver that nobody named has the
# driver's own.
"$spillway" run --softgpu --quiet --name giver --memory 512MiB "$ipc" give "$scratch/handle" &
until_true $patience test -e "$scratch/handle" || fail "no handle"
same "without Spillway" 1 "$(on_softgpu "$ipc" open "$scratch/handle")"
same "by a job that nobody named" 0 "$(under_shim "$ipc" open "$scratch/handle")"
same "by another job" 0 "$("$spillway" run --softgpu --quiet --name taker --memory 64MiB "$ipc" open "$scratch/handle")"
kill $!
wait $! || :
LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$ipc" give "$scratch/native" &
until_true $patience test -e "$scratch/native" || fail "no handle of the driver"
same "the driver's own" 0 "$("$spillway" run --softgpu --quiet --name taker --memory 64MiB "$ipc" open "$scratch/native")"
kill $!
wait $! || :

# Small allocations without an arena are blocks of a slab. The first that is given away can be
# opened under Spillway alone, and the giver is told so. The next can be opened by any process.
export SPILLWAY_SPILL=off
a_case in_slab 64MiB
has "in_slab" "$(cat "$scratch/out")" "only a process under Spillway, of this user and state directory"
"$spillway" run --softgpu --quiet --name giver --memory 64MiB "$ipc" give_small "$scratch/first" "$scratch/second" \
	2>"$scratch/out" &
until_true $patience test -e "$scratch/second" || fail "no handles: $(cat "$scratch/out")"
same "a block, without Spillway" 1 "$(on_softgpu "$ipc" open_small "$scratch/first")"
same "the next, without Spillway" 0 "$(on_softgpu "$ipc" open_small "$scratch/second")"
same "the job's own" "$(counter giver device_used)" "$(device_bytes)"
for handle in first second; do
	same "$handle, by another job" 0 \
		"$("$spillway" run --softgpu --quiet --name taker --memory 64MiB "$ipc" open_small "$scratch/$handle")"
	same "$handle, beyond its limit" 2 \
		"$("$spillway" run --softgpu --quiet --name taker --memory 1MiB "$ipc" open_small "$scratch/$handle" 2>"$scratch/out")"
done
kill $!
wait $! || :

#!/bin/sh
# SPDX-License-Identifier: MIT
# Processes of one job have all modules, events alone, or none. One limit holds for all of them. A
# module answers in the process that has it. The kernel alone holds limits.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
kernel="$build/kernel/libspillway.so $build/lib/libspillway-alias.so"
only_events="$build/with-events/libspillway.so $build/lib/libspillway-alias.so"
export SPILLWAY_JOB=mixed SPILLWAY_MEMORY=24MiB SPILLWAY_SPILL=off

# hold NAME PRELOAD BLOCKS: a process that holds so many blocks of 8 MiB; its number in $pid
hold() {
	LD_PRELOAD=$2 LD_LIBRARY_PATH=$softgpu "$allocate" --mib 8 --count "$3" --hold-ms 600000 --ready "$scratch/$1" >"$scratch/$1.said" 2>&1 &
	pid=$!
	until_true $patience test -e "$scratch/$1" || fail "$1 is not ready: $(cat "$scratch/$1.said")"
}
alone() { LD_PRELOAD=$kernel LD_LIBRARY_PATH=$softgpu "$allocate" "$@"; }
with_events() { LD_PRELOAD=$only_events LD_LIBRARY_PATH=$softgpu "$allocate" "$@"; }
refusals() { "$spillway" events --since @0 mixed 2>/dev/null | grep -c '  refusal ' || true; }

# The kernel alone: 3 blocks fit, and a lowered limit moves them.
has "the kernel alone" "$(alone --mib 8 --count 4)" "blocks=3 refused=1"

# A key of a module that is not built in is an error, and what else is set holds.
said=$(SPILLWAY_STEPS=on alone --mib 8 --count 4 2>&1)
has "a key of a module" "$said" "SPILLWAY_STEPS = on: the module 'steps' of this key is not built in"
says_not() { case $2 in *"$3"*) fail "$1: '$3' in: $2" ;; esac; }
has "a key of another module" "$(SPILLWAY_STEPS=on with_events --mib 8 --count 4 2>&1)" "'steps' of this key is not built in"
says_not "with the module" "$(SPILLWAY_STEPS=on under_shim "$allocate" --mib 8 --count 4 2>&1)" "not built in"

# In a file, too; one of [job] as one of [gpu].
for key in '[job] region = off vgpu' '[gpu] steps = on steps' '[gpu] placement = balanced placement' '[gpu] turn = exclusive sharing'; do
	# shellcheck disable=SC2086 # words
	set -- $key
	printf '%s\n%s = %s\n' "$1" "$2" "$4" >"$scratch/key.ini"
	said=$(SPILLWAY_CONFIG=$scratch/key.ini alone --mib 8 --count 4 2>&1)
	has "$2 in a file" "$said" "key.ini:2: $2 = $4: the module '$5' of this key is not built in"
	says_not "$2 with the module" "$(SPILLWAY_CONFIG=$scratch/key.ini under_shim "$allocate" --mib 8 --count 4 2>&1)" "not built in"
done

# Memory is given to no other process, and that is said; a slab has no handle of the driver's.
said=$(GIVES_MEMORY=no LD_PRELOAD=$kernel LD_LIBRARY_PATH=$softgpu "$build/tests/e2e/small" check 2>&1) ||
	fail "giving memory without the module: $said"
has "giving memory" "$said" "without the module 'ipc', which is not built in"
same "lines of it" 1 "$(printf '%s\n' "$said" | grep -c "module 'ipc'")"

hold all "$shim" 1
all=$pid
hold none "$kernel" 1
none=$pid
out=$("$spillway" stat mixed)
has "the process with all modules" "$out" "$all"
has "the process with none" "$out" "$none"
# One answers, of the other it is said why it does not.
out=$("$spillway" stat mixed --resources 2>&1) && fail "resources of a process without the module: $out"
has "resources of the one" "$out" "/allocation/"
has "resources of the other" "$out" "process $none: its Spillway is built without the module 'resources'"
# 16 of 24 MiB are taken, whichever process asks.
before=$(refusals)
has "a third process without modules" "$(alone --mib 8 --count 2)" "blocks=1 refused=1"
same "refusals that the kernel alone records" "$before" "$(refusals)"
has "a third process with events" "$(with_events --mib 8 --count 2)" "blocks=1 refused=1"
same "refusals that events records" $((before + 1)) "$(refusals)"
has "a third process with all" "$(under_shim "$allocate" --mib 8 --count 2)" "blocks=1 refused=1"
kill "$none"
wait "$none" || true
has "what the killed one held" "$(under_shim "$allocate" --mib 8 --count 3)" "blocks=2 refused=1"
kill "$all"
wait "$all" || true

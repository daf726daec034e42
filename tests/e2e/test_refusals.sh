#!/bin/sh
# SPDX-License-Identifier: MIT
# A refusal of memory is explained by the limit that refused, the missing bytes, and the option that
# raises the limit. The summary of `run`, `stat`, its JSON and metrics, the log and the events say
# so.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
allocate=$build/tests/e2e/allocate

# refused NAME REASON OPTION...: a run of blocks of 8 MiB that is refused for the reason.
refused() {
	name=$1 reason=$2
	shift 2
	"$spillway" run --softgpu --name "$name" "$@" "$allocate" --mib 8 --count 8 \
		>"$scratch/out" 2>"$scratch/err" || fail "$name: $(cat "$scratch/err")"
	json=$("$spillway" stat "$name" --json | sed 's/,"processes":.*//')
	has "$name: stat --json" "$json" "\"refused_reason\":\"$reason\",\"refused_bytes\":$((8 * mib)),"
	case $json in *'"refused_at":null'*) fail "$name: no time: $json" ;; esac
}
# says WHERE TEXT PATTERN
says() { printf '%s\n' "$2" | grep -qE "$3" || fail "$1: not '$3': $2"; }

refused host host_memory --memory 16MiB --host-memory 10MiB
sentence='refused 8\.00 MiB: host memory is used up \(limit 10\.0 MiB, 6\.00 MiB too little\)\. Raise it with `--host-memory`\.'
says log "$(cat "$scratch/err")" "^spillway: warning: gpu 0: $sentence"
says summary "$(cat "$scratch/err")" '^spillway: host: .*; [0-9]+ allocations? (was|were) refused(, the latest)?: host memory is used up$'
same "the sentence stands once" 1 "$(grep -c 'Raise it with' "$scratch/err")"
says stat "$("$spillway" stat host)" "^gpu 0: the latest of [0-9]+ refusals?, at .*: $sentence"
says json "$("$spillway" stat --json host)" ",\"refused_text\":\"$sentence\","
says metrics "$("$spillway" stat --format prometheus)" \
	'^spillway_refused_reason\{spillway_job="host",.*reason="host_memory"\} 1$'
says metrics "$("$spillway" stat --format prometheus)" '^spillway_refused_short_bytes\{spillway_job="host",.*\} 6291456$'

# Which calls hold the memory: in the log, and in the job's last lines.
holders='Largest holders: 24\.0 MiB by allocate\+0x[0-9a-f]+ \(3, oldest [0-9.]+ m?s\)\.'
says holders "$(cat "$scratch/err")" "$sentence $holders\$"
says "stat --refused" "$("$spillway" stat host --refused)" ": process [0-9]+, gpu 0: $sentence $holders\$"
"$spillway" run --softgpu --quiet --name served "$allocate" --mib 8 --count 1 >/dev/null
same "stat --refused of another job" "no memory was refused" "$("$spillway" stat served --refused)"

# The event has them, too.
says "event" "$("$spillway" events host --since @0)" ', reason host_memory, held: 24\.0 MiB by allocate\+0x[0-9a-f]+ \(3, oldest [0-9.]+ m?s\)\.$'
says "event as JSON" "$("$spillway" events host --since @0 --json)" \
	'"event":"refusal",.*"reason":"host_memory","holders":"24\.0 MiB by allocate\+0x[0-9a-f]+ \(3, oldest [^"]*\)\.",'

# Memory that the program makes itself is held by its call of cuMemCreate.
"$spillway" run --softgpu --name made --memory 16MiB --host-memory 10MiB "$allocate" --mib 8 --count 8 --api create \
	>"$scratch/out" 2>"$scratch/err" || fail "made: $(cat "$scratch/err")"
says made "$(cat "$scratch/err")" 'Largest holders: 24\.0 MiB by allocate\+0x[0-9a-f]+ \(3, oldest [0-9.]+ m?s\)\.$'

# Where the log is not on standard error the summary has the sentence.
for log in error "warning:$scratch/log"; do
	SPILLWAY_LOG=$log refused elsewhere host_memory --memory 16MiB --host-memory 10MiB
	says summary "$(cat "$scratch/err")" "^spillway: elsewhere: gpu 0: (the latest: )?$sentence"
	says summary "$(cat "$scratch/err")" '^spillway: elsewhere: .*; [0-9]+ allocations? (was|were) refused$'
done

# Less than the 2 MiB of which memory on the host is made: the limit refuses, the machine has room.
"$spillway" run --softgpu --name least --memory 0 --host-memory 1MiB "$allocate" --mib 1 --count 1 \
	>"$scratch/out" 2>"$scratch/err" || true
says least "$(cat "$scratch/err")" \
	'refused 1\.00 MiB: host memory is used up \(limit 1\.00 MiB, 1\.00 MiB too little\)\. Raise it with `--host-memory`'

limit_file "$scratch/off.ini" $((16 * mib)) 'spill = off'
refused off memory --config "$scratch/off.ini"
says off "$(cat "$scratch/err")" \
	'refused 8\.00 MiB: the memory limit is used up, and spill = off \(limit 16\.0 MiB, 8\.00 MiB too little\)\. Raise it with `--memory`'

limit_file "$scratch/pin.ini" $((16 * mib)) 'pin_new = yes'
refused pinned unmovable --config "$scratch/pin.ini"
says pinned "$(cat "$scratch/err")" \
	'refused 8\.00 MiB that must stay on the GPU \(pin_new\): memory that cannot leave the GPU fills the memory limit .*Raise it with `--memory`\. `--memory 24MiB` would be enough\.'

limit_file "$scratch/first.ini" $((16 * mib)) 'spill_after = 2'
refused first spill_after --config "$scratch/first.ini"
says first "$("$spillway" stat first)" 'the program is told first, to free its cache .*Change that with `spill_after`'

limit_file "$scratch/full.ini" $((4096 * mib)) 'spill = off'
SOFTGPU_MEMORY=32MiB refused full device_full --config "$scratch/full.ini"
says full "$("$spillway" stat full)" 'the GPU is full: the limit was not reached'

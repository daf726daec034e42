#!/bin/sh
# SPDX-License-Identifier: MIT
# Growth: a limit rises by itself while the job is spilled and the device has room. Unused room
# within the limits of other jobs counts, too. The limit falls back when another job needs the room.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
mib=1048576
runners=
SOFTGPU_MEMORY=512M
export SOFTGPU_MEMORY

hold() { # hold NAME BLOCKS OPTIONS...: a job that holds blocks of 8 MiB, with the options of spillway run
	name=$1 blocks=$2
	shift 2
	"$spillway" run --softgpu --quiet --name "$name" "$@" "$allocate" --mib 8 --count "$blocks" --hold-ms 600000 \
		--ready "$scratch/$name.ready" >"$scratch/$name.out" 2>&1 &
	runner=$!
	runners="$runners $runner"
	until_true $patience [ -e "$scratch/$name.ready" ] || fail "$name did not start: $(cat "$scratch/$name.out")"
}
number() { # number JOB KEY: of its GPU
	"$spillway" stat "$1" --json | sed "s/\"processes\".*//; s/.*\"$2\":\\([0-9]*\\).*/\\1/"
}
device() { test "$(number "$1" device_charged)" "$2" $(($3 * mib)); }
host() { test "$(number "$1" host_used)" "$2" $(($3 * mib)); }
limit() { test "$(number "$1" limit_set)" "$2" $(($3 * mib)); }

# Without memory_max nothing grows, whatever room there is.
hold small 12 --memory 64MiB
small=$runner

# Alone with room: all of it comes to the device, though the job began with 64 MiB.
hold grows 40 --memory 64MiB --memory-max 100%
grows=$runner
until_true $patience device grows -ge 320 || fail "not grown: $("$spillway" stat grows)"
until_true $patience host grows -eq 0 || fail "still spilled: $("$spillway" stat grows)"
limit grows -ge 320 || fail "the limit in force: $("$spillway" stat grows --json)"
same "limit_set less what it has grown" $((64 * mib)) $(($(number grows limit_set) - $(number grows limit_grown)))
has "stat says so" "$("$spillway" stat grows)" "has grown by"
limit small -eq 64 || fail "a limit without memory_max has changed: $("$spillway" stat small)"
kill "$small"
wait "$small" || true

# What a job was promised and does not use is lent, because it can be called back.
hold lazy 4 --memory 256MiB
until_true $patience host lazy -eq 0 || fail "the lazy job is spilled: $("$spillway" stat)"
until_true $patience device grows -ge 320 || fail "what the lazy job does not use is not lent: $("$spillway" stat)"
kill "$runner"
wait "$runner" || true

# Another job gets what its limit says; of the rest the first one keeps what it can.
hold other 28 --memory 224MiB
until_true $patience device other -eq 224 || fail "the other job does not get its own: $("$spillway" stat)"
until_true $patience host other -eq 0 || fail "the other job is spilled: $("$spillway" stat)"
until_true $patience limit grows -le 288 || fail "not given up: $("$spillway" stat)"
until_true $patience device grows -le 288 || fail "nothing was moved: $("$spillway" stat)"
until_true $patience device grows -ge 240 || fail "gave up more than was needed: $("$spillway" stat)"
[ "$(device_bytes)" -le $((512 * mib)) ] || fail "more than the device has: $(device_bytes)"

# NVML, asked in the job, has the limit the job began with as the GPU's memory.
has "NVML" "$(SPILLWAY_JOB=grows under_shim "$build/tests/e2e/nvml")" "0 total=$((64 * mib)) used=$((64 * mib)) free=0"

# A limit that is set starts anew, and --memory-max 0 ends growth.
other=$runner
"$spillway" set --timeout $patience grows --memory 48MiB --memory-max 0 >"$scratch/set" || fail "set: $(cat "$scratch/set")"
until_true $patience device grows -le 48 || fail "set to 48 MiB: $("$spillway" stat grows)"
same "grown" 0 "$(number grows limit_grown)"
"$spillway" set --timeout $patience grows --memory-max 400MiB >"$scratch/set"
until_true $patience device grows -ge 240 || fail "does not grow again: $("$spillway" stat grows)"
limit other -eq 224 || fail "the other job's limit has changed"
device other -eq 224 || fail "the other job was pushed out: $("$spillway" stat)"

# The other one ends: all of it comes back.
kill "$other"
wait "$other" || true
until_true $patience device grows -ge 320 || fail "does not take what became free: $("$spillway" stat grows)"

kill "$grows"
wait "$grows" || true

# What the program is told has not changed with it.
"$spillway" run --softgpu --quiet --name told --memory 64MiB --memory-max 256MiB "$allocate" --mib 8 --count 16 \
	--rounds 10 --hold-ms 300 >"$scratch/told" 2>&1 || fail "told: $(cat "$scratch/told")"
case $(grep '^round' "$scratch/told" | grep -v "total=$((64 * mib))") in
'') ;;
*) fail "told another total: $(cat "$scratch/told")" ;;
esac
has "bytes" "$(cat "$scratch/told")" "ok bad=0"

# The processes of a job have one limit, which rises for all of them.
SPILLWAY_MEMORY=64MiB SPILLWAY_MEMORY_MAX=100% "$spillway" run --softgpu --quiet --name pair sh -c '
	for i in 1 2; do "$0" --mib 8 --count 16 --hold-ms 600000 --ready "$1.$i" & done; wait' "$allocate" "$scratch/pair" >"$scratch/pair.out" 2>&1 &
runners="$runners $!"
for i in 1 2; do
	until_true $patience [ -e "$scratch/pair.$i" ] || fail "pair: $(cat "$scratch/pair.out")"
done
until_true $patience device pair -ge 256 || fail "the pair has not grown: $("$spillway" stat pair)"
until_true $patience host pair -eq 0 || fail "the pair is spilled: $("$spillway" stat pair)"
"$spillway" stat pair --json | grep -q '"limit_set":67108864,' && fail "one of the pair does not know: $("$spillway" stat pair --json)"
exit 0

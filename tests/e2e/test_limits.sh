#!/bin/sh
# SPDX-License-Identifier: MIT
# Limits that a cgroup or NVML keeps: the smaller one holds, `stat` and the metrics tell each and
# where it comes from, and one that changes is followed while the job runs. The limiter of the
# software GPU is an imitation.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
region=nvidia/0000:01:00.0/vidmem
tree=$scratch/slice leaf=$scratch/slice/pod/leaf
mkdir -p "$leaf"
SPILLWAY_CGROUP=$leaf SOFTGPU_CGROUP=$leaf SOFTGPU_NVML_LIMITS=$scratch/nvml
export SPILLWAY_CGROUP SOFTGPU_CGROUP SOFTGPU_NVML_LIMITS
# dmem FOLDER FILE SIZE_MIB|max: a cgroup's limit, written as a whole
dmem() {
	case $3 in max) echo "$region max" ;; *) echo "$region $(($3 * mib))" ;; esac >"$scratch/next"
	mv "$scratch/next" "$1/dmem.$2"
}
# says WHERE TEXT PATTERN
says() { printf '%s\n' "$2" | grep -qE "$3" || fail "$1: not '$3': $2"; }
within() { device_within $(($1 * mib)); }

# hold JOB: a program of 128 MiB
hold() {
	rm -f "$scratch/ready" "$scratch/end"
	SPILLWAY_JOB=$1 SPILLWAY_LOG=error under_shim "$build/tests/e2e/allocate" --count 16 --ready "$scratch/ready" \
		--until "$scratch/end" >"$scratch/out" 2>&1 &
	held=$!
	until_true $patience [ -e "$scratch/ready" ] || fail "$1: $(cat "$scratch/out")"
}
release() {
	: >"$scratch/end"
	wait "$held" || fail "$(cat "$scratch/out")"
	has "all bytes are right" "$(cat "$scratch/out")" "ok bad=0"
	has "nothing is refused" "$(cat "$scratch/out")" "refused=0"
}

# The imitation itself: a limit of the leaf is the total that programs are told. One of a parent
# holds, and the total is the device's. There is no level in between.
mkdir "$tree/own"
# alone REFUSED TOTAL: a program of 128 MiB without Spillway
alone() {
	out=$(SOFTGPU_CGROUP=$tree/own on_softgpu "$build/tests/e2e/allocate" --count 16)
	has "the limiter" "$out" "refused=$1 "
	has "the limiter" "$out" " total=$(($2 * mib)) "
}
dmem "$tree/own" max 64
alone 8 64
dmem "$tree" max 96
dmem "$tree/own" max max
alone 4 2048

# The level in between has no such files: its controller is off. The slice's limit holds.
dmem "$leaf" max 1024
dmem "$leaf" min 64
hold files
within 64 || fail "more than the soft limit is held: $(device_bytes)"
stat=$("$spillway" stat files)
says "stat" "$stat" '^gpu 0: hard limit 96\.0 MiB \(dmem\.max of a cgroup above its own\): the driver refuses memory beyond it$'
says "stat" "$stat" '^gpu 0: soft limit 64\.0 MiB \(dmem\.min of its cgroup\): the driver may end a process that holds more$'
says "stat --json" "$("$spillway" stat files --json)" \
	"\"hard_limit\":$((96 * mib)),\"hard_from\":\"parent\",\"soft_limit\":$((64 * mib)),\"soft_from\":\"cgroup\",\"reserve\":0,"
metrics=$("$spillway" stat --format prometheus)
says "metrics" "$metrics" "^spillway_hard_limit_bytes\{spillway_job=\"files\",.*\} $((96 * mib))\$"
says "metrics" "$metrics" '^spillway_soft_from\{spillway_job="files",.*name="cgroup"\} 1$'

# Resized while the job runs, both ways.
dmem "$leaf" min 32
until_true $patience counter_is files soft_limit $((32 * mib)) || fail "the new limit is not told: $("$spillway" stat files)"
until_true $patience within 32 || fail "the new limit is not followed: $("$spillway" stat files)"
dmem "$leaf" min 80
until_true $patience counter_is files limit_set $((80 * mib)) || fail "the limit did not rise: $("$spillway" stat files)"
until_true $patience device_at_least $((72 * mib)) || fail "nothing came back: $("$spillway" stat files)"
dmem "$tree" max 48
until_true $patience within 48 || fail "the slice's limit is not followed: $("$spillway" stat files)"

# NVML has lower limits, as where the kernel has no controller; of another cgroup it says nothing.
printf '%s\n' "$tree $((8 * mib)) $((8 * mib))" "$leaf $((24 * mib)) $((40 * mib))" >"$scratch/nvml.next"
mv "$scratch/nvml.next" "$scratch/nvml"
until_true $patience counter_is files soft_from nvml || fail "NVML's limit is not told: $("$spillway" stat files)"
until_true $patience within 24 || fail "NVML's limit is not followed: $("$spillway" stat files)"
says "stat" "$("$spillway" stat files)" '^gpu 0: hard limit 40\.0 MiB \(NVML\)'
release

# Without any files; and a job without limits tells none.
rm "$tree/dmem.max" "$leaf/dmem.max" "$leaf/dmem.min"
hold nvml
until_true $patience within 24 || fail "NVML's limit alone is not followed: $("$spillway" stat nvml)"
: >"$scratch/nvml"
until_true $patience device_at_least $((128 * mib)) || fail "no limit is left, and memory stays: $("$spillway" stat nvml)"
until_true $patience counter_is nvml hard_limit null || fail "the old limit is told: $("$spillway" stat nvml)"
says "no metric" "$("$spillway" stat --format prometheus | grep -c 'hard_limit_bytes{spillway_job="nvml"')" '^0$'
release

# Memory that may not leave the GPU is refused beyond the soft limit. The reason names that limit.
dmem "$leaf" max 1024
dmem "$leaf" min 32
SPILLWAY_JOB=stays SPILLWAY_SPILL=off under_shim "$build/tests/e2e/allocate" >"$scratch/out" 2>&1 || fail "stays: $(cat "$scratch/out")"
has "stays" "$(cat "$scratch/out")" "refused=4 "
says "stays" "$(cat "$scratch/out")" "limit 32\.0 MiB, .* The limit is that of $leaf/dmem\.min: raise that first\. Largest holders: 32\.0 MiB by "
says "stat --refused" "$("$spillway" stat stays --refused)" " The limit is that of $leaf/dmem\.min: raise that first\. Largest holders: "
SPILLWAY_MEMORY=16MiB SPILLWAY_JOB=own SPILLWAY_SPILL=off under_shim "$build/tests/e2e/allocate" >"$scratch/out" 2>&1 || fail "own: $(cat "$scratch/out")"
has "own" "$(cat "$scratch/out")" "limit 16.0 MiB"
case $(cat "$scratch/out") in *"raise that first"*) fail "the job's own limit is said to be the cgroup's: $(cat "$scratch/out")" ;; esac

# The kernel's own controller, where this machine has one that knows a GPU.
cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
if [ "$(id -u)" -eq 0 ] && grep -q '/\(vidmem\|vram[0-9]*\) ' "$cgroups/dmem.capacity" 2>/dev/null; then
	region=$(awk '$1 ~ /\/(vidmem|vram[0-9]*)$/ { print $1; exit }' "$cgroups/dmem.capacity")
	leaf=$cgroups/spillway-$$
	grep -qw dmem "$cgroups/cgroup.subtree_control" || echo +dmem >"$cgroups/cgroup.subtree_control"
	mkdir "$leaf"
	echo "$region $((64 * mib))" >"$leaf/dmem.max"
	echo "$region $((32 * mib))" >"$leaf/dmem.min"
	out=$(SPILLWAY_CGROUP=$leaf "$spillway" doctor 2>&1) || :
	rmdir "$leaf"
	says "the kernel's controller" "$out" "^ok  gpu .*: the cgroup leaves 64\\.0 MiB \\($leaf/dmem\\.max\\), 32\\.0 MiB safe \\($leaf/dmem\\.min\\)"
	echo "the kernel's controller: $region"
fi

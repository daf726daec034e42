#!/bin/sh
# SPDX-License-Identifier: MIT
# All device memory is counted, for a program that takes it in every way. After each step the bytes
# that stat shows become those of the software GPU's own books. That holds where NVML knows the
# process, and where it does not.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
mib=1048576
export SOFTGPU_CONTEXT_MEMORY=8M

# shown JOB COUNTER
shown() {
	"$spillway" stat "$1" --json | grep -o "\"$2\":[0-9]*" | head -n 1 | cut -d : -f 2
}
# agree JOB: what the driver takes for itself is asked for a moment later
agree() {
	true=$(device_bytes) used=$(shown "$1" device_used)
	[ "$true" = "$used" ]
}

# counted JOB TYPE: of the resources that carry what the driver takes
counted() {
	mkfifo "$scratch/$1-say" "$scratch/$1-go"
	"$spillway" run --softgpu --quiet --name "$1" --memory 512MiB "$build/tests/e2e/counted" \
		<"$scratch/$1-go" >"$scratch/$1-say" 2>"$scratch/errors" &
	exec 3>"$scratch/$1-go" 4<"$scratch/$1-say"
	steps=0
	while read -r what <&4; do
		until_true $patience agree "$1" || fail "$1: $what: $true bytes on the device, $used shown"
		echo "$1: $what: $true"
		case $what in
		"primary context") same "a context" $((8 * mib)) "$true" ;;
		"no context"*) same "$what" 0 "$true" ;;
		"module")
			[ "$true" -ge $((20 * mib)) ] || fail "a module: $true bytes"
			! built_in resources || has "$1" "$("$spillway" stat "$1" --resources)" "/$2/"
			;;
		"pinned host memory") same "$what" $((3 * mib + 8192)) "$(shown "$1" pinned_used)" ;;
		"pinned host memory, freed") same "$what" 0 "$(shown "$1" pinned_used)" ;;
		esac
		steps=$((steps + 1))
		echo go >&3
	done
	wait $! || fail "$1: $(cat "$scratch/errors")"
	same "steps" 35 "$steps"
}

counted told overhead
SOFTGPU_NVML=host counted differences measured

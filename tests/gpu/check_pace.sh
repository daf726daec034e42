#!/bin/sh
# SPDX-License-Identifier: MIT
# How exactly shares are held, by the work that is done against the same load without Spillway. Each
# kind of load has several shares, and two jobs run at once. NVML's utilisation of the device stands
# beside it. PACE_LOADS: those of which a word is here (all), as in PACE_LOADS="streams|at 100" (an
# extended regular expression). PACE_SECONDS, PACE_SHARES: see pace.sh.
set -eu
. tests/gpu/needs.sh
. tests/gpu/pace.sh
need_gpu
load=$BUILD/clients/pace_load

if [ "$GPU" = soft ]; then
	length=--asleep
else
	"$load" --seconds 1 >"$TMPDIR/out"
	length="--loops-per-ms $(field loops_per_ms <"$TMPDIR/out")"
fi

wanted() { # wanted NAME
	printf '%s\n' "$1" | grep -Eq "${PACE_LOADS:-.}"
}

# one NAME ARGUMENTS...: alone, at several shares
one() {
	name=$1
	shift
	wanted "$name" || return 0
	# shellcheck disable=SC2086 # $length is two words
	watched "$load" $length --seconds "$seconds" "$@"
	full=$(rate work_ms "$TMPDIR/out")
	for share in $shares; do
		# shellcheck disable=SC2086
		watched "$BUILD/spillway" run --quiet --name pace --share "$share" "$load" $length --seconds "$seconds" "$@"
		line "$name" "$share" "$(rate work_ms "$TMPDIR/out")" "$full" "$utilised"
	done
}

one "kernels of 50 us" --kernel-us 50
one "kernels of 1 ms" --kernel-us 1000
one "kernels of 50 ms" --kernel-us 50000
one "a mix of those" --kernel-us 50,1000,50000
one "four streams" --streams 4
one "two threads' streams" --threads 2
one "wait for each" --wait
one "deep queue" --ahead-ms 1000
one "graphs of 100" --graph 100 --kernel-us 50
one "graphs of 2000" --graph 2000 --kernel-us 50 --ahead-ms 200

# At 100 nothing is lost.
if wanted "at 100" || wanted "two at once"; then
	# shellcheck disable=SC2086
	watched "$load" $length --seconds "$seconds"
	full=$(rate work_ms "$TMPDIR/out")
fi
if wanted "at 100"; then
	# shellcheck disable=SC2086
	watched "$BUILD/spillway" run --quiet --name pace --share 100 "$load" $length --seconds "$seconds"
	line "at 100" 100 "$(rate work_ms "$TMPDIR/out")" "$full" "$utilised"
fi

if wanted "two at once"; then
	jobs=
	for job in 70 30; do
		# shellcheck disable=SC2086
		"$BUILD/spillway" run --quiet --name "pace-$job" --share $job "$load" $length --seconds "$seconds" >"$TMPDIR/$job" &
		jobs="$jobs $!"
	done
	for job in $jobs; do wait "$job" || fail "two at once: exit status $?"; done
	for job in 70 30; do line "two at once" $job "$(rate work_ms "$TMPDIR/$job")" "$full" -; done
fi

# Several devices whose kernels wait for each other, where there are several.
export SOFTGPU_DEVICES=2
# shellcheck disable=SC2086
if wanted "two devices" && "$load" $length --launches 1 --ranks 2 >"$TMPDIR/two" 2>&1; then
	for kind in "" --processes; do
		watched "$load" $length --seconds "$seconds" --kernel-us 5000 --ranks 2 $kind
		full=$(rate steps "$TMPDIR/out")
		watched "$BUILD/spillway" run --quiet --name pace --share 50 "$load" $length --seconds "$seconds" --kernel-us 5000 --ranks 2 $kind
		line "two devices $kind" 50 "$(rate steps "$TMPDIR/out")" "$full" "$utilised"
	done
elif wanted "two devices"; then
	echo "  two devices: $(tail -n 1 "$TMPDIR/two")"
fi
all_are_held

# SPDX-License-Identifier: MIT
# Sourced by the tests of pacing, after lib.sh: loads, judged by the software GPU's own clock.
# shellcheck shell=sh disable=SC2034,SC2154
load=$build/clients/pace_load

counter_above() { # JOB NAME VALUE
	[ "$(counter "$1" "$2")" -gt "$3" ]
}

# judged COMMAND...: with the device's clock watched
judged() {
	"$softgpu/softgpu-truth" --watch 10 >"$scratch/samples" &
	judge=$!
	rc=0
	"$@" || rc=$?
	wait $judge
	return $rc
}

# held_by OUTPUT [VARIABLE=VALUE...]: percent of the device's time that was held while that load
# ran, in whole points
held_by() {
	from=$(field start_ns "$1") to=$(field stop_ns "$1")
	shift
	for setting in "$@"; do
		set -- "$@" -v "$setting"
		shift
	done
	awk -v from="$from" -v to="$to" "$@" -f tests/bench/held.awk "$scratch/samples" >"$scratch/held" || fail "no sample: $(cat "$scratch/samples")"
	held=$(field held "$(cat "$scratch/held")")
	echo "${held%.*}"
}

# SPDX-License-Identifier: MIT
# Sourced by the tests of priorities, after elastic.sh.
# shellcheck shell=sh disable=SC2154
load=$build/clients/pace_load

# starts JOB PRIORITY LOAD...: a job that works until it is killed
starts() {
	job=$1 priority=$2
	shift 2
	"$spillway" run --softgpu --quiet --name "$job" --priority "$priority" \
		"$load" --asleep --seconds 3600 "$@" >"$scratch/$job" 2>&1 &
	until_true $patience counter_at_least "$job" launches 1 || fail "$job does not start: $(cat "$scratch/$job")"
}

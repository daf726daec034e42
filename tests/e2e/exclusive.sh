# SPDX-License-Identifier: MIT
# Sourced by the tests of exclusive turns on several devices, after elastic.sh.
# shellcheck shell=sh disable=SC2154
export SOFTGPU_MEMORY=64M SOFTGPU_DEVICES=2
load=$build/clients/pace_load

# starts JOB OPTIONS
starts() {
	job=$1
	shift
	"$spillway" run --softgpu --quiet --name "$job" --turn exclusive --turn-length 300ms "$load" --asleep "$@" \
		--kernel-us 1000 --seconds 1000 >"$scratch/$job" 2>"$scratch/$job.errors" &
}

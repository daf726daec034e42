#!/bin/sh
# SPDX-License-Identifier: MIT
# A program on the CUDA runtime, without nvcc: every call runs alone and under the shim. Then one
# process, and two at once, take more memory than the limit. All of it is there, and gives the same
# sums.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
programs=$build/clients/cudart
export SOFTGPU_CONTEXT_MEMORY=1M

for program in "$programs/registered" "$programs/registered_12"; do
	on_softgpu "$program" || fail "$program alone"
	under_shim "$program" || fail "$program under the shim"
	"$spillway" run --softgpu --quiet --memory 64MiB "$program" || fail "$program within a limit"
done

program=$programs/registered
alone=$(on_softgpu "$program" blocks 24)
has "alone" "$alone" "blocks=24 checksum="
one=$("$spillway" run --softgpu --quiet --name cudart-one --memory 8MiB "$program" blocks 24)
same "with a limit" "$alone" "$one"
case $("$spillway" stat cudart-one --json) in
*'"spilled_bytes":0'*) fail "nothing spilled" ;;
esac

# shellcheck disable=SC2016 # expanded by the inner shell
"$spillway" run --softgpu --quiet --name cudart-two --memory 8MiB sh -c \
	'"$0" blocks 24 >"$1" & "$0" blocks 24 >"$2" && wait $!' "$program" "$scratch/first" "$scratch/second"
same "the first of two" "$alone" "$(cat "$scratch/first")"
same "the second of two" "$alone" "$(cat "$scratch/second")"

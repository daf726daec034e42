#!/bin/sh
# Triton from PyPI, unmodified, multiplies matrices in fp16, bf16 and tf32 with loads ahead of its
# loop. The results agree with numpy's, and have the same bits under half and under a quarter of the
# memory that the program takes.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh
[ -e "$frameworks/packages/triton" ] || skip "no Triton: make frameworks"
triton_can_compile
program="python3 $here/triton_multiplies.py" peak_mib=44 # eleven arrays of 4 MiB

# shellcheck disable=SC2086 # its words
direct=$($program 2>"$scratch/direct.err") || fail "direct: $direct $(cat "$scratch/direct.err")"
echo "$direct"
for mib in $((peak_mib / 2)) $((peak_mib / 4)); do
	job=triton$mib
	# shellcheck disable=SC2086 # its words
	said=$(limited "$job" "${mib}MiB" --reported limit+host $program) || fail "$job: $said"
	same "$job" "$(field checksum "$direct")" "$(field checksum "$said")"
	same "$job: refusals" 0 "$(counter "$job" refusals)"
	[ "$(counter "$job" host_peak)" -gt 0 ] || fail "$job has had nothing on the host: $said"
done

#!/bin/sh
# SPDX-License-Identifier: MIT
# tinygrad trains on the digits in graphs of kernels that NVRTC compiles, to 95 %, and judges.
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh

export JIT=1 # in graphs
member "tinygrad" "$(version tinygrad)" "trains on digits to 95 %, in graphs of kernels"
program="$python_env/bin/python $here/train_digits.py tests/clients/data/digits.csv"
# shellcheck disable=SC2086 # its words
told direct directly $program
at_least "accuracy" 95 "$(field accuracy "$(cat "$scratch/direct.out")")"
peak_kib=$(($(field memory "$(cat "$scratch/direct.out")") >> 10))
weighed() {
	at_least "$1: graphs launched" 1 "$("$spillway" stat "$1" --json | sed 's/,"processes":.*//' |
		grep -o '"graph_launches":[0-9]*' | awk -F: '{ sum += $2 } END { print sum + 0 }')"
}
judge
same "device bytes held when it is over" 0 "$(device_bytes)"

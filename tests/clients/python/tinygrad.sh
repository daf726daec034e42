# SPDX-License-Identifier: MIT
# Sourced by the tests of tinygrad, after lib.sh: a training, direct and under the shim.
# shellcheck shell=sh disable=SC2154
digits=tests/clients/data/digits.csv
differs=fail # or `off`, where they may differ by themselves

# train NAME [ARGUMENTS...]: trains alone, then with half the memory it holds and 80 % of the GPU's
# time; it must learn, and the weights be the same to the bit. JIT is 1 (steps are graphs) or 2.
train() {
	train=$1
	shift
	alone=$(client $here/train_digits.py $digits "$@" 2>&1) || fail "$train alone: $alone"
	echo "$train: $alone"
	at_least "$train: accuracy" 95 "$(field accuracy "$alone")"
	half=$(($(field memory "$alone") / 2))
	limited=$(limited_client "$train" ${half}B 80 $here/train_digits.py $digits "$@") ||
		fail "$train under a limit of $half: $limited"
	echo "$train under a limit of $half: $limited"
	[ "$(field checksum "$alone")" = "$(field checksum "$limited")" ] ||
		$differs "$train: weights: '$(field checksum "$limited")', alone '$(field checksum "$alone")'"
	at_least "$train: spilled bytes" 1 "$(counter "$train" spilled_bytes)"
	graphs=$("$spillway" stat "$train" --json | sed 's/,"processes":.*//' |
		grep -o '"graph_launches":[0-9]*' | awk -F: '{ sum += $2 } END { print sum + 0 }')
	case $JIT in
	1) at_least "$train: graphs launched" 1 "$graphs" ;;
	2) same "$train: graphs launched" 0 "$graphs" ;;
	esac
}

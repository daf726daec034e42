# SPDX-License-Identifier: MIT
# Sourced by the tests of elastic memory, after lib.sh.
# shellcheck shell=sh disable=SC2034,SC2154
mib=1048576
ELASTIC_RING=$build/tests/e2e/ring
export ELASTIC_RING

# limit_file FILE BYTES|SIZE [LINE...]: a configuration, written as a whole, at which jobs look now
limit_file() {
	file=$1
	case $2 in *[!0-9]*) unit='' ;; *) unit=B ;; esac
	printf '[gpu]\nmemory = %s%s\n' "$2" "$unit" >"$file.next"
	shift 2
	for line in "$@"; do printf '%s\n' "$line" >>"$file.next"; done
	mv "$file.next" "$file"
	"$ELASTIC_RING"
}

# device_within BYTES: the software GPU's own count is no more
device_within() {
	[ "$(device_bytes)" -le "$1" ]
}
device_at_least() {
	[ "$(device_bytes)" -ge "$1" ]
}
# held_by PID: what it has on device 0, by the software GPU's books
held_by() {
	"$softgpu/softgpu-truth" | awk -v pid="$1" '$1 == "0" && $2 == pid { print $3 }'
}
# counter_is JOB NAME VALUE
counter_is() {
	[ "$(counter "$1" "$2")" = "$3" ]
}
counter_at_least() {
	[ "$(counter "$1" "$2")" -ge "$3" ]
}

# truth COLUMN: of the software GPU's books, over all processes on device 0
truth() {
	"$softgpu/softgpu-truth" | awk -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i; next }
		$1 == "0" { sum += $column } END { printf "%.0f\n", sum }'
}

# start_driven JOB CONFIG [NAME=VALUE...]: the program of driven.c under a job, for tell(), or what
# $driven_by names.
start_driven() {
	driven_job=$1 config=$2
	shift 2
	rm -f "$scratch/to" "$scratch/from"
	mkfifo "$scratch/to" "$scratch/from"
	env "$@" "$spillway" run --softgpu --quiet --name "$driven_job" --config "$config" "$build/tests/e2e/${driven_by:-driven}" \
		<"$scratch/to" >"$scratch/from" 2>"$scratch/driven-errors" &
	driven=$!
	exec 8>"$scratch/to" 9<"$scratch/from"
}
# tell COMMAND...: $answer is what it says
tell() {
	echo "$*" >&8
	read -r answer <&9 || fail "'$*' has no answer: $(cat "$scratch/driven-errors")"
}
# wants ANSWER COMMAND...
wants() {
	wanted=$1
	shift
	tell "$@"
	same "$*" "$wanted" "$answer"
}
# end_driven: the program ends by itself
end_driven() {
	exec 8>&-
	wait "$driven" || fail "the program failed: $(cat "$scratch/driven-errors")"
	exec 9<&-
}

# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# For the tests of this folder, which source it: their requirements, and how they read results.
# Files that are worth keeping go to $RESULTS, a folder, which is the test's own scratch where no
# caller wants them.
: "${BUILD:=build}" "${NVCC:=nvcc}" "${GPU:=real}" "${RESULTS:=$TMPDIR}"
if [ "$GPU" = soft ]; then # to try the scripts themselves
	LD_LIBRARY_PATH=$(cd "$BUILD" && pwd)/softgpu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
fi

skip() { # skip REASON: ends the test as skipped
	echo "$1"
	exit 77
}

fail() { # fail REASON: ends the test as failed
	echo "$1"
	exit 1
}

need_gpu() { # a real GPU: one that works without the software one; or that one where it is asked for
	probed=$("$BUILD/clients/gpu_busy" --seconds 0 --loops 1 2>&1) ||
		skip "no GPU: $(echo "$probed" | tail -n 1)"
}

need_python() { # that $PYTHON names; what uses it has nothing to do where there is none
	: "${PYTHON:=python3}"
	command -v "$PYTHON" >/dev/null || skip "no Python here: $PYTHON is not on PATH"
}

need_pytorch() { # with CUDA; $PYTHON runs it
	need_python
	[ "$GPU" = real ] || skip "PyTorch has machine code alone: it needs a real GPU"
	"$PYTHON" -c 'import numpy, torch; assert torch.cuda.is_available()' 2>"$TMPDIR/why" ||
		skip "no PyTorch with CUDA for $PYTHON: $(tail -n 1 "$TMPDIR/why")"
}

# by_gpu REAL SOFT: a size, or whatever depends on which GPU it is
by_gpu() {
	if [ "$GPU" = soft ]; then echo "$2"; else echo "$1"; fi
}

# context_bytes: what a context takes, which counts against a limit
context_bytes() {
	"$BUILD/spillway" run --quiet --name gpu-context --memory 100% "$BUILD/tests/e2e/allocate" --mib 1 --count 1 >&2
	counter gpu-context device_peak
}

# limit_file FILE BYTES|SIZE [LINE...]: a configuration, written as a whole
limit_file() {
	file=$1
	case $2 in *[!0-9]*) unit='' ;; *) unit=B ;; esac
	printf '[gpu]\nmemory = %s%s\n' "$2" "$unit" >"$file.next"
	shift 2
	for line in "$@"; do printf '%s\n' "$line" >>"$file.next"; done
	mv "$file.next" "$file"
}

# disturb FILE CONTEXT WORKING_SET: until calm, in the background, a limit between 20 % and 120 % of
# the working set
disturb() {
	"$BUILD/tests/e2e/restless" "$1" $(($2 + $3 / 5)) $(($2 + $3 * 6 / 5)) 50 "demote_deadline = 1ms" &
	restless=$!
	trap 'kill $restless 2>/dev/null || true' EXIT
}
calm() {
	kill "$restless"
	wait "$restless" 2>/dev/null || true
	trap - EXIT
}

# until_true SECONDS COMMAND...: waits for COMMAND to succeed
until_true() {
	tries=$(($1 * 20))
	shift
	while ! "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
		sleep 0.05
	done
}

# counter_is JOB NAME TEST VALUE: as in: counter_is bert host_used -eq 0
counter_is() {
	test "$(counter "$1" "$2")" "$3" "$4"
}

# field NAME: the value after NAME= on stdin, where a program printed it last.
field() {
	sed -n "s/.* $1=\([^ ]*\).*/\1/p" | tail -n 1
}

# counter JOB NAME: a counter of a job on its first device; nothing if there is none.
counter() {
	"$BUILD/spillway" stat "$1" --json | grep -o "\"$2\": *[0-9]*" | head -n 1 | grep -o '[0-9]*$'
}

same_text() { # neither is empty
	[ -n "$1" ] && [ "$1" = "$2" ]
}

# bar NAME WANTED FOUND COMMAND...: leaves a line for the table of results, and fails as COMMAND
# does, which judges
bar() {
	name=$1 wanted=$2 found=$3
	shift 3
	if "$@"; then word=met; else word="not met"; fi
	printf '%s\t%s\t%s\t%s\n' "$name" "$wanted" "$found" "$word" >>"$RESULTS/bars.tsv"
	[ "$word" = met ]
}

# framework NAME VERSION VERDICT: a cell of the table of reports (README.md); of a name the last
# counts
framework() {
	printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$RESULTS/frameworks.tsv"
}

# with_all JOB CHECKSUM COMMAND...: runs it with the whole GPU as its limit, which does not change
# its results. What it was charged for good is in $for_good: contexts, modules and the like, which
# no limit moves. It is what its peak was above its own working set.
with_all() {
	job=$1 expected=$2
	shift 2
	with_all=$("$BUILD/spillway" run --quiet --name "$job" --memory 100% "$@") || fail "at a limit of 100 %: exit status $?"
	echo "at 100 %: $with_all"
	[ "$(echo "$with_all" | field checksum)" = "$expected" ] ||
		fail "at a limit of 100 % the results differ: $expected alone, '$with_all'"
	for_good=$(($(counter "$job" device_peak) - $(echo "$with_all" | field working_set)))
	[ $for_good -ge 0 ] || for_good=0
}

# same_within_limit JOB LIMIT ALONE LIMITED FOR_GOOD: the two runs' checksums are equal, and the job
# spilled and kept to its limit in bytes, but for what it is charged for good.
same_within_limit() {
	bar "$1: same results under half its memory" "$3" "$4" same_text "$3" "$4" ||
		fail "checksum alone is '$3', under the limit '$4'"
	spilled=$(counter "$1" spilled_bytes)
	peak=$(counter "$1" device_peak)
	echo "limit $2, most device memory held $peak, charged for good $5, spilled $spilled bytes"
	[ "${spilled:-0}" -gt 0 ] || fail "nothing was spilled: the limit of $2 bytes was not met"
	bar "$1: device memory held" "$2 and $5 for good" "${peak:-unknown}" [ "${peak:-$(($2 + $5 + 1))}" -le $(($2 + $5)) ] ||
		fail "${peak:-an unknown number of} bytes of device memory were held under a limit of $2, with $5 charged for good"
}

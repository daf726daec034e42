# shellcheck shell=sh
# For the tests of this folder, which source it: what they need, and how they read results.
: "${BUILD:=build}" "${NVCC:=nvcc}"

skip() { # skip REASON: ends the test as skipped
	echo "$1"
	exit 77
}

fail() { # fail REASON: ends the test as failed
	echo "$1"
	exit 1
}

need_gpu() { # a real GPU: one that works without the software one
	probed=$("$BUILD/clients/gpu_busy" --seconds 0 --loops 1 2>&1) ||
		skip "no GPU: $(echo "$probed" | tail -n 1)"
}

# field NAME: the value after NAME= on stdin, where a program printed it last.
field() {
	sed -n "s/.* $1=\([^ ]*\).*/\1/p" | tail -n 1
}

# counter JOB NAME: a counter of a job on its first device; nothing if there is none.
counter() {
	"$BUILD/spillway" stat "$1" --json | grep -o "\"$2\": *[0-9]*" | head -n 1 | grep -o '[0-9]*$'
}

# same_within_limit JOB LIMIT ALONE LIMITED: the two runs' checksums are equal, and the job spilled
# and kept to its limit in bytes.
same_within_limit() {
	if [ -z "$3" ] || [ "$3" != "$4" ]; then
		fail "checksum alone is '$3', under the limit '$4'"
	fi
	spilled=$(counter "$1" spilled_bytes)
	peak=$(counter "$1" device_peak)
	echo "limit $2, most device memory held $peak, spilled $spilled bytes"
	[ "${spilled:-0}" -gt 0 ] || fail "nothing was spilled: the limit of $2 bytes was not met"
	[ "${peak:-$2}" -le "$2" ] || fail "$peak bytes of device memory were held under a limit of $2"
}

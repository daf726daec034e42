# SPDX-License-Identifier: MIT
# Sourced by the tests of the tool: a tree of its own, in which the shim is an empty library, so
# that the tool is tested alone. Also functions by which a test states its expectations.
# shellcheck shell=sh disable=SC2034 # used by those who source it
set -u
# shellcheck source=tests/ending.sh
. tests/ending.sh
mark_started
unset SLURM_JOB_ID KUBERNETES_SERVICE_HOST CUDA_DISABLE_CONTROL TF_FORCE_GPU_ALLOW_GROWTH \
	XLA_PYTHON_CLIENT_PREALLOCATE XLA_CLIENT_MEM_FRACTION XLA_PYTHON_CLIENT_MEM_FRACTION
: "${BUILD:=build}" "${TMPDIR:=/tmp}" "${SPILLWAY_STATE_DIR:?}"
# Preloaded libraries come before the sanitizer's, which it would refuse.
export ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0"

build=$(cd "$BUILD" && pwd -P)
tree=$TMPDIR/tree
mkdir -p "$tree/lib"
cp "$build/spillway" "$tree/"
cp "$build/tests/e2e/empty.so" "$tree/lib/libspillway.so"
cp "$build/tests/e2e/empty.so" "$tree/lib/libspillway-alias.so"
cp "$build/lib/driver-probe" "$tree/lib/"
tree=$(cd "$tree" && pwd -P)
spillway=$tree/spillway
fake_job=$build/tests/e2e/fake_job
out=$TMPDIR/out
err=$TMPDIR/err

failures=0
fail() {
	echo "FAILED: $*"
	[ ! -s "$out" ] || sed 's/^/  out: /' "$out"
	[ ! -s "$err" ] || sed 's/^/  err: /' "$err"
	failures=$((failures + 1))
}

# expect STATUS COMMAND...: runs it, output in $out and $err
expect() {
	expected=$1
	shift
	"$@" >"$out" 2>"$err"
	status=$?
	[ $status -eq "$expected" ] || fail "status $status, expected $expected: $*"
}

# says FILE PATTERN: an extended regular expression
says() {
	grep -Eq -- "$2" "$1" || fail "expected /$2/"
}

says_not() {
	! grep -Eq -- "$2" "$1" || fail "not expected /$2/"
}

# start_job NAME ARGUMENTS...: a live process of a job; its number in $pid
start_job() {
	name=$1
	shift
	: >"$TMPDIR/$name.log"
	SPILLWAY_JOB=$name "$fake_job" "$@" >"$TMPDIR/$name.log" 2>&1 &
	pid=$!
	jobs_started="${jobs_started:-} $pid"
	wait_for ready "$TMPDIR/$name.log"
}

# wait_for PATTERN FILE: at most 200 s
wait_for() {
	tries=0
	until grep -q "$1" "$2" 2>/dev/null; do
		tries=$((tries + 1))
		if [ $tries -gt 4000 ]; then
			fail "waited in vain for '$1' in $2"
			return
		fi
		sleep 0.05
	done
}

finish() {
	[ "$failures" -eq 0 ] || echo "$failures failed"
	exit $((failures > 0))
}

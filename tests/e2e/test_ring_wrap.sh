#!/bin/sh
# SPDX-License-Identifier: MIT
# A job has more events than its ring holds. Events that are read while it runs and afterwards are
# in order, and none is torn. Lost events are counted where they are missing.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
job=""
follower=""
case ${SANITIZER:-} in address | thread)
	echo "this sanitizer has to be in the program: Python is built without it"
	exit 77
	;;
esac
# shellcheck disable=SC2086 # numbers or nothing
trap '{ kill -CONT $follower; kill -9 $job $follower; } 2>/dev/null || true' EXIT

cat >"$scratch/blocks.py" <<'P'
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context, at = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
assert [cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)] == [0, 0, 0]
for line in sys.stdin:
    first, last = map(int, line.split())
    for i in range(first, last):  # two events each, which say which it is
        assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t((2 << 20) + i)) == 0
        assert cuda.cuMemFree_v2(at) == 0
    print(last, flush=True)
P
# events FILE WHAT: it is as it should be; says how many were seen and how many are lost
events() {
	python3 - "$1" <<-'P' || fail "$2: $(head -n 3 "$1"; tail -n 3 "$1")"
		import json, sys
		seen = lost = missing = 0
		expected, began = 0, 0  # which of the two events of which block; when the last began
		gap = False
		for line in open(sys.argv[1]):
		    event = json.loads(line)
		    if event["event"] == "lost":
		        assert event["records"] > 0
		        lost += event["records"]
		        gap = True
		        continue
		    seen += 1
		    assert event["begin_ns"] >= began, line
		    began = event["begin_ns"]
		    if event["event"] not in ("allocation", "free"):
		        assert event["event"] in ("limit", "share", "context", "configuration"), line
		        continue
		    place = 2 * (event["bytes"] - (2 << 20)) + (event["event"] == "free")
		    assert place == expected or gap and place > expected, (expected, place, line)
		    missing += place - expected
		    expected, gap = place + 1, False
		assert missing <= lost, (missing, lost)
		print(f"seen={seen} lost={lost} missing={missing} last={expected // 2}")
	P
}
export SPILLWAY_JOB=wraps SPILLWAY_MEMORY=16MiB
mkfifo "$scratch/orders"
under_shim python3 "$scratch/blocks.py" <"$scratch/orders" >"$scratch/done" 2>&1 &
job=$!
exec 9>"$scratch/orders"
blocks() { # blocks FIRST LAST
	echo "$1 $2" >&9
	until_true $patience grep -qx "$2" "$scratch/done" || fail "not done: $(cat "$scratch/done")"
}
follower_has() { until_true $patience grep -q "\"event\":\"free\".*\"bytes\":$((2097152 + $1))," "$scratch/followed" || fail "no event of block $1 is told"; }

blocks 0 100
"$spillway" events wraps --json --since @0 --follow >"$scratch/followed" 2>"$scratch/err" &
follower=$!
follower_has 99
# While nobody reads, two rings' worth; then while somebody does.
kill -STOP $follower
blocks 100 10000
kill -CONT $follower
follower_has 9999
blocks 10000 10100
follower_has 10099
blocks 10100 30100
follower_has 30099
kill -TERM $follower # the shell had its background programs ignore SIGINT
wait $follower || true
[ ! -s "$scratch/err" ] || fail "events --follow says $(cat "$scratch/err")"
follower=
exec 9>&-
wait $job || fail "the job: status $?: $(cat "$scratch/done")"
job=

# An assignment, so that what fails ends the test.
followed=$(events "$scratch/followed" "followed") || fail "$followed"
"$spillway" events --since @0 wraps --json >"$scratch/afterwards"
afterwards=$(events "$scratch/afterwards" "afterwards") || fail "$afterwards"
echo "followed: $followed; afterwards: $afterwards"
same "last that was followed" 30100 "$(field last "$followed")"
same "last of all" 30100 "$(field last "$afterwards")"
same "kept" 8192 "$(field seen "$afterwards")"
# What nobody could have read is more than what the ring holds less.
[ "$(field lost "$followed")" -ge $((2 * 9900 - 8192)) ] || fail "fewer are said to be lost: $followed"
same "lost, but for those of the beginning" "$(field missing "$followed")" "$(field lost "$followed")"
same "seen and lost" $(($(field seen "$followed") + $(field lost "$followed"))) $(($(field seen "$afterwards") + $(field lost "$afterwards")))

#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway stat JOB --resources: the resources that a process reports, the request for them, and
# processes that do not answer or answer nonsense. And the page and the status file of a real job.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
mkdir "$SPILLWAY_NODE_DIR"

# hold COMMAND...: starts it in the background, until it holds its memory; its number in $pid
hold() {
	rm -f "$scratch/ready"
	LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$@" --hold-ms 600000 --ready "$scratch/ready" >"$scratch/said" 2>&1 &
	pid=$!
	until_true $patience test -e "$scratch/ready" || fail "$*: not ready: $(cat "$scratch/said")"
}
# stop PID: until it has stopped, which a signal sent does not say
is_stopped() { grep -q '^State:.T' "/proc/$1/status"; }
stop() {
	kill -STOP "$1"
	until_true $patience is_stopped "$1" || fail "process $1 does not stop"
}
resources() { "$spillway" stat "$@" --resources; }
json() { # json EXPRESSION TEXT: of the document d
	printf '%s\n' "$2" | python3 -c "import json,sys; d=json.load(sys.stdin); sys.exit(not ($1))" || fail "not so: $1: $2"
}
# Neither a socket nor a descriptor is left of a question.
nothing_left() {
	same "sockets in the state directory" "" "$(find "$SPILLWAY_STATE_DIR" -name '*.socket')"
	same "descriptors of the process" "$1" "$(find "/proc/$pid/fd" -type l | wc -l)"
}

SPILLWAY_STATUS_FILE=$scratch/status SPILLWAY_JOB=bert hold "$allocate" --count 3 --mib 8
"$spillway" set --timeout $patience bert --share 90 >"$scratch/set" || fail "set: status $?" # the helper looks at its files from now on
# A killed process would wait for the kernel to let go of it, with its GPU memory held.
same "descriptors of inotify" 0 "$(find "/proc/$pid/fd" -lname '*inotify*' | wc -l)"
descriptors=$(find "/proc/$pid/fd" -type l | wc -l)
out=$(resources bert)
has "the process" "$out" "process $pid: "
same "allocations, with bytes, age and handle" 3 \
	"$(printf '%s\n' "$out" | grep -Ec "^8\.00 MiB +[0-9.]+ (ms|s)  /job:bert/process:$pid/gpu:0/ctx1/allocation/[0-9a-f]{16}$")"
has "types" "$out" "3 allocation"
has "types" "$out" "1 context"
same "context" 1 "$(printf '%s\n' "$out" | grep -c "/job:bert/process:$pid/gpu:0/default/context/")"
nothing_left "$descriptors"
out=$(resources bert --json)
json "d['job'] == 'bert' and len(d['processes']) == 1 and d['processes'][0]['pid'] == $pid" "$out"
json "[r['bytes'] for r in d['processes'][0]['resources'] if r['type'] == 'allocation'] == [2**23] * 3" "$out"
json "all(0 < r['age_ns'] < 600e9 for r in d['processes'][0]['resources'])" "$out"
json "sum(d['processes'][0]['types'].values()) == len(d['processes'][0]['resources'])" "$out"
json "d['processes'][0]['types']['allocation'] == 3 and d['processes'][0]['types']['context'] == 1" "$out"
json "d['processes'][0]['left_out'] == 0 and d['processes'][0]['error'] is None" "$out"
same "mode of the state directory" 700 "$(stat -c %a "$SPILLWAY_STATE_DIR")"

# A handle begins with its job, which is asked for all the same.
rc=0
said=$("$spillway" stat --resources "/job:bert/process:$pid/gpu:0" 2>&1) || rc=$?
same "status without a job" 2 "$rc"
has "a handle in place of the job" "$said" "--resources: expected a job"

# What it pushes for a scheduler is what stat says, at the latest 10 seconds after.
pushed() { "$spillway" stat bert --format antman | cmp -s - "$scratch/status"; }
until_true $patience pushed || fail "status_file: $(cat "$scratch/status")"
has "status_file" "$(cat "$scratch/status")" '"deviceMemUsedMin":'
has "status_file" "$(cat "$scratch/status")" '"swapReason":""'

# Many who ask at once get their answers, one after the other.
for i in 1 2 3 4; do
	resources bert >"$scratch/many.$i" 2>&1 &
	eval "asker$i=\$!"
done
for i in 1 2 3 4; do
	eval "wait \$asker$i" || fail "one of four who ask: $(cat "$scratch/many.$i")"
	same "allocations for one of four who ask" 3 "$(grep -c /allocation/ "$scratch/many.$i")"
done

# A process that is stopped is said, in bounded time; the others of its job are shown.
first=$pid
SPILLWAY_JOB=bert hold "$allocate" --count 2 --mib 16
stop "$first"
rc=0
timeout 100 "$spillway" stat bert --resources >"$scratch/out" 2>"$scratch/err" || rc=$?
same "status with a stopped process" 1 $rc
has "the stopped process" "$(cat "$scratch/err")" "spillway: process $first: it does not answer; is it stopped?"
same "allocations of the other" 2 "$(grep -c "^16\.0 MiB .*/process:$pid/" "$scratch/out")"
kill -CONT "$first"
same "sockets in the state directory" "" "$(find "$SPILLWAY_STATE_DIR" -name '*.socket')"

# One that ends while it is asked is left out. It is asked for 3 s, within which it has to end: else
# once more.
second=$pid
is_asked() { [ -n "$(find "$SPILLWAY_STATE_DIR" -name '*.socket')" ]; }
ends_while_asked() {
	SPILLWAY_JOB=bert hold "$allocate" --count 1 --mib 1
	stop "$pid"
	resources bert >"$scratch/out" 2>"$scratch/err" &
	asker=$!
	until_true $patience is_asked || fail "nobody is asked: $(cat "$scratch/err")"
	kill -KILL "$pid"
	wait $asker
}
asked=1
until ends_while_asked; do
	[ $asked -lt 5 ] || fail "one that ended: $(cat "$scratch/err")"
	asked=$((asked + 1))
done
same "processes without the one that ended" 2 "$(grep -c '^process ' "$scratch/out")"
pid=$second

# The job's page, as its processes are.
page() { find "$SPILLWAY_NODE_DIR" -name "job-$(id -u)-bert-*.page"; }
until_true $patience sh -c "[ -n \"\$(find '$SPILLWAY_NODE_DIR' -name '*-bert-*.page')\" ]" || fail "no page of the job"
same "mode of the page" 644 "$(stat -c %a "$(page)")"
seen() { SPILLWAY_STATE_DIR=$scratch/elsewhere "$spillway" stat --all | grep -Eq "^bert +[^ ]+ +$1 "; }
until_true $patience seen 'running +2' || fail "its two processes are not seen"
kill "$first"
wait "$first" 2>/dev/null || true
until_true $patience seen 'running +1' || fail "one of its processes went, and that is not seen"
kill "$pid"
wait "$pid" 2>/dev/null || true
seen 'ended +0' || fail "it was killed, and that is not seen"
# One that nobody named answers, too; and its page, if it has one, goes when it exits.
LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$allocate" --count 1 --until "$scratch/end" --ready "$scratch/unnamed" >"$scratch/said" 2>&1 &
pid=$!
until_true $patience test -e "$scratch/unnamed" || fail "not ready: $(cat "$scratch/said")"
has "a job nobody named" "$(resources "allocate-$pid")" "/job:allocate-$pid/process:$pid/gpu:0/ctx1/allocation/"
until_true $patience sh -c "[ -n \"\$(find '$SPILLWAY_NODE_DIR' -name '*-allocate-*.page')\" ]" || fail "no page of a job that nobody named"
: >"$scratch/end"
wait "$pid" || fail "allocate: $(cat "$scratch/said")"
same "page of a job that has ended" "" "$(find "$SPILLWAY_NODE_DIR" -name '*-allocate-*')"

# What answers in place of a process is data from others. A process that answers nothing: a job
# without the shim.
SPILLWAY_JOB=liar "$build/tests/e2e/fake_job" >"$scratch/liar" &
until_true $patience grep -q ready "$scratch/liar" || fail "no liar"
cat >"$scratch/liar.py" <<'END'
import glob, os, socket, struct, sys, time
lie, ready, directory = sys.argv[1], sys.argv[2], os.environ["SPILLWAY_STATE_DIR"]
def reply(magic=b"SPILRSRC", version=1, error=0, listed=1, left_out=0, size=0):
    return struct.pack("<8sIiQQQ", magic, version, error, listed, left_out, size)
def file(text):
    fd = os.memfd_create("lie"); os.write(fd, text); return fd
good = b"1 2 /job:liar/process:1/gpu:0/ctx1/allocation/17\n"
lies = {
    "good": lambda: (reply(size=len(good)), [file(good)]),
    "short": lambda: (reply()[:20], []),
    "magic": lambda: (reply(magic=b"SPILRSRX"), [file(b"")]),
    "version": lambda: (reply(version=2), [file(b"")]),
    "none": lambda: (reply(size=10), []),
    "huge": lambda: (reply(size=1 << 60, listed=1 << 50), [file(good)]),
    "cut": lambda: (reply(size=len(good) + 100), [file(good)]),
    "more": lambda: (reply(size=2 * len(good)), [file(good + good)]),
    "fewer": lambda: (reply(size=len(good), listed=2), [file(good)]),
    "noise": lambda: (reply(size=300), [file(b"\xff" * 299 + b"\n")]),
    "zero": lambda: (reply(size=40), [file(b"\0" * 40)]),
    "escape": lambda: (reply(size=len(good) + 1), [file(good[:-1] + b"\x1b\n")]),
    "path": lambda: (reply(size=len(good)), [file(good.replace(b"gpu:0", b"gpu:x"))]),
    "pipe": lambda: (reply(size=10), [os.pipe()[0]]),
    "error": lambda: (reply(error=12, listed=0), []),
    "silent": None,
}
open(ready, "w").close()
while not (names := glob.glob(directory + "/*.socket")):
    time.sleep(0.005)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
while True:
    try:
        s.connect(names[0]); break
    except ConnectionRefusedError:
        time.sleep(0.005)
if lies[lie]:
    packet, files = lies[lie]()
    socket.send_fds(s, [packet], files) if files else s.send(packet)
    s.close()
else:
    time.sleep(10)
END
for lie in good short magic version none huge cut more fewer noise zero escape path pipe error silent; do
	timeout 200 python3 "$scratch/liar.py" $lie "$scratch/$lie.ready" &
	liar=$!
	until_true $patience test -e "$scratch/$lie.ready" || fail "$lie: no liar"
	rc=0
	timeout 100 "$spillway" stat liar --resources >"$scratch/out" 2>"$scratch/err" || rc=$?
	if [ $lie = good ]; then
		same "$lie: status ($(cat "$scratch/err"))" 0 $rc
		has "$lie" "$(cat "$scratch/out")" "/job:liar/process:1/gpu:0/ctx1/allocation/17"
	else
		same "$lie: status ($(cat "$scratch/err"))" 1 $rc
		same "$lie: lines on stderr" 1 "$(wc -l <"$scratch/err")"
		! grep -q /job: "$scratch/out" || fail "$lie: it is believed: $(cat "$scratch/out")"
	fi
	kill "$liar" 2>/dev/null || true
	wait "$liar" 2>/dev/null || true
done

# Handles are looked up: those that are there, and why the others are not.
SPILLWAY_JOB=asked hold "$allocate" --count 3 --mib 8
there=$(resources asked | grep -o '/job:asked/.*/allocation/[0-9a-f]*')
same "handles" 3 "$(printf '%s\n' "$there" | wc -l)"
# shellcheck disable=SC2086 # words
out=$("$spillway" stat asked --resources $there) || fail "they are there: $out"
same "all are there" 3 "$(printf '%s\n' "$out" | grep -Ec "^8\.00 MiB +[0-9.]+ m?s +/job:asked/process:$pid/gpu:0/ctx1/allocation/")"
of=/job:asked/process:$pid/gpu:0
first=$(printf '%s\n' "$there" | head -n 1)
rc=0
"$spillway" stat asked --resources "$first" "$of/ctx1/allocation/00000000000000ff" "$of/ctx1/context/${first##*/}" \
	"$of/ctx7/allocation/${first##*/}" "$of/ctx1/nothing/x" "/job:asked/process:1/gpu:0/ctx1/allocation/${first##*/}" \
	"/job:asked/process:$pid/gpu:1/ctx1/allocation/${first##*/}" "/job:other/process:$pid/gpu:0/ctx1/allocation/${first##*/}" \
	>"$scratch/out" 2>"$scratch/err" || rc=$?
same "status where some are gone" 1 $rc
same "there" 1 "$(grep -c '^8\.00 MiB' "$scratch/out")"
same "gone" 7 "$(grep -c '^ *- *gone ' "$scratch/out")"
has "why" "$(cat "$scratch/err")" "$of/ctx1/allocation/00000000000000ff: is not there
spillway: $of/ctx1/context/${first##*/}: is not there, but one of type allocation is
spillway: $of/ctx7/allocation/${first##*/}: there is no container ctx7
spillway: $of/ctx1/nothing/x: the process has nothing of type nothing on this GPU
spillway: process 1 is not live
spillway: /job:asked/process:$pid/gpu:1/ctx1/allocation/${first##*/}: the process has nothing of type allocation on this GPU
spillway: it is of job other"
out=$("$spillway" stat asked --resources --json "$first" "$of/default/context/0000000000000000") && fail "one is gone: $out"
json "[(h['handle'] == '$first', h['bytes'], h['error'] is None) for h in d['handles']] == [(True, 2**23, True), (False, None, False)]" "$out"
kill "$pid"

# Wrong command lines.
for wrong in "bert /job:bert/process:1/gpu:0/a/b/c" "bert --resources /job:bert" "bert --resources bert" "--resources" "bert --resources --format csv" "bert --resources --format prometheus"; do
	rc=0
	# shellcheck disable=SC2086 # words
	"$spillway" stat $wrong >"$scratch/out" 2>&1 || rc=$?
	same "status of stat $wrong" 2 $rc
done

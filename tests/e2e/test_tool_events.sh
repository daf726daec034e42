#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway events: lines, JSON and traces of the events in processes' rings; following, filters,
# state, interrupts.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
PYTHONPATH=tests/e2e
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE
TZ=UTC0
export TZ
writer=$build/tests/e2e/write_events
# A shell lets its background ignore interrupts.
interruptible='env --default-signal=INT'

# python CODE: with the lines of $out as objects in events
python() {
	python3 - "$out" <<-END || fail "not so: $1"
		import json, sys
		text = open(sys.argv[1]).read()
		assert text == "" or text.endswith("\n"), "a torn line"
		events = [json.loads(line) for line in text.splitlines()]
		def kinds(): return [e["event"] for e in events]
		$1
	END
}

# start_writer NAME JOB [RUN]: a process of a job that writes what put() tells it; one at a time on
# descriptor 7
start_writer() {
	rm -f "$TMPDIR/$1.to"
	mkfifo "$TMPDIR/$1.to"
	: >"$TMPDIR/$1.from"
	SPILLWAY_JOB=$2 SPILLWAY_RUN=${3:-} "$writer" <"$TMPDIR/$1.to" >"$TMPDIR/$1.from" 2>&1 &
	pid=$!
	jobs_started="${jobs_started:-} $pid"
	exec 7>"$TMPDIR/$1.to"
	writing=$1 lines=0
}
# put EVENT...: see write_events.c
put() {
	echo "$*" >&7
	lines=$((lines + 1))
	tries=0
	until [ "$(grep -c '^written' "$TMPDIR/$writing.from")" -ge $lines ]; do
		tries=$((tries + 1))
		[ $tries -le 1200 ] || {
			fail "'$*' was not written: $(cat "$TMPDIR/$writing.from")"
			return
		}
		sleep 0.05
	done
}
end_writer() {
	exec 7>&-
	wait "$pid" || fail "the writer of $writing: $(cat "$TMPDIR/$writing.from")"
}

for kinds in '' limits limit, ,limit 'limit,bursts'; do
	expect 2 "$spillway" events --kind "$kinds"
	says "$err" "^spillway: --kind '$kinds': expected kinds of events with commas between them, such as limit,configuration$"
done
# Where there is nothing.
expect 0 "$spillway" events --since @0
[ ! -s "$out" ] || fail 'events of no job'
expect 1 "$spillway" events nobody
says "$err" "^spillway: .*"
expect 1 "$spillway" events 'a/b'

# Each kind of event has its values, in both forms.
start_writer a a
put burst 0 1000000000 2000000 12 0 0 0 0
put slot 0 1000000001 1000 1 0 0 0 0
put turn 0 1000000002 1000 0 0 0 0 0
put move 0 1000000003 1500000 4194304 1 8388608 0 0
put spill 0 1000000004 0 2097152 limit 8388608 7f0000200000 3
put refusal 0 1000000005 0 1048577 18446744073709551615 3 0 0
put limit 0 1000000006 0 1073741824 18446744073709551615 77 0 0
put share 0 1000000007 0 62500 0 0 0 0
put pause 0 1000000008 0 0 0 0 0 0
put resume 0 1000000009 0 0 0 0 0 0
put step 0 1000000010 3000000 17 0 0 0 0
put configuration -1 1000000011 0 1 0 0 0 0
put allocation 0 1000000012 0 3000000 8388608 4096 7f0000400000 3
put free 0 1000000013 0 3000000 4194304 4096 7f0000400000 3
put context 0 1000000014 0 1 0 0 5500 0
put claim 0 1000000015 0 6000000 4194304 8192 0 0
put yield 0 1000000016 0 5000000 4194304 8192 0 0
put grant 0 1000000017 0 4000000 8388608 4096 0 0
expect 0 "$spillway" events --since @0 a --json
python '
meaning = open("core/rings/event.h").read().split("#define EVENTS(X)")[1].split("enum event_kind")[0]
import re
assert kinds() == re.findall(r"\bX\((\w+),", meaning), kinds()
assert [e["begin_ns"] for e in events] == list(range(1000000000, 1000000018))
assert all(e["job"] == "a" and e["process"] == '"$pid"' and e["time_ns"] > e["begin_ns"] for e in events)
assert [e["gpu"] for e in events] == [0] * 11 + [None] + [0] * 6
by = {e["event"]: e for e in events}
assert by["burst"]["duration_ns"] == 2000000 and by["burst"]["launches"] == 12
assert by["slot"]["why"] == "share" and by["slot"]["duration_ns"] == 1000
assert by["move"]["bytes"] == 4194304 and by["move"]["to"] == "host" and by["move"]["used"] == 8388608
assert by["spill"]["bytes"] == 2097152 and by["spill"]["reason"] == "limit"
assert by["spill"]["resource"] == "/job:a/process:'"$pid"'/gpu:0/ctx3/allocation/00007f0000200000"
assert "duration_ns" not in by["spill"] and "a" not in by["spill"] and "_" not in by["spill"]
assert by["refusal"]["limit"] is None and by["refusal"]["bytes"] == 1048577 and by["refusal"]["reason"] == "host_memory"
assert by["limit"]["set"] == 1073741824 and by["limit"]["held"] is None
assert by["share"]["set"] == 62500
assert by["step"]["number"] == 17
assert [by[e]["bytes"] for e in ("claim", "yield", "grant")] == [6000000, 5000000, 4000000]
assert by["yield"]["used"] == 4194304 and by["yield"]["host_used"] == 8192
assert [by["configuration"][name] for name in ("accepted", "through", "by")] == [True, None, None] and by["configuration"]["resource"] == "/job:a/process:'"$pid"'"
assert by["allocation"]["host_used"] == 4096
assert by["context"]["resource"].endswith("/gpu:0/default/context/0000000000005500")
'
expect 0 "$spillway" events --since @0 a
[ "$(wc -l <"$out")" -eq 18 ] || fail 'one line each'
says "$out" "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\.[0-9]{6}  a/$pid  gpu 0  burst  *took 2\.00 ms, launches 12$"
says "$out" "  spill  *bytes 2\.00 MiB, reason limit, used 8\.00 MiB, /job:a/process:$pid/gpu:0/ctx3/allocation/00007f0000200000$"
says "$out" "  limit  *set 1\.00 GiB, held none, used 77 B$"
says "$out" "  a/$pid  configuration  *accepted yes, through -, by -$"
says "$out" "  share  *set 62\.5 %$"

# One resource, one GPU, one process; a beginning of a name is not enough.
handle=/job:a/process:$pid/gpu:0/ctx3/allocation/00007f0000400000
expect 0 "$spillway" events --since @0 --json --resource "$handle"
python 'assert kinds() == ["allocation", "free"]'
expect 0 "$spillway" events --since @0 --json --resource "${handle%/*}"
python 'assert kinds() == ["spill", "allocation", "free"]'
expect 0 "$spillway" events --since @0 --json --resource "/job:a/process:$pid"
python 'assert len(events) == 18'
expect 0 "$spillway" events --since @0 --json --resource "${handle%0}"
python 'assert events == []'
for handle in a /job: job:a /job:a/ '' /job:../gpu:9 /job:a/gpu:0 /job:a/process:x /job:a/process:7/gpu:0/ \
	"$handle/more" /job:a/process:7/gpu:/ctx3; do
	expect 2 "$spillway" events --resource "$handle"
done

# Since: what lasted until then counts. On a machine that has just booted nothing is so old.
while [ "$(cut -d . -f 1 /proc/uptime)" -le 90 ]; do sleep 1; done
put pause 0 -90000000000 0 0 0 0 0 0
put burst 0 -40000000000 40000000000 1 0 0 0 0
expect 0 "$spillway" events a --json --since 30s
python 'assert kinds() == ["burst"]'
expect 0 "$spillway" events a --json --since 60
python 'assert kinds() == ["burst"]'
expect 0 "$spillway" events a --json --since 5m
python 'assert kinds()[-2:] == ["pause", "burst"]'
for minutes in 1:%H:%M:%S 1:@%s "1:%Y-%m-%d %H:%M:%S" 1:%Y-%m-%dT%H:%M:%S; do
	then=$(date -d "-${minutes%%:*} minutes" "+${minutes#*:}")
	# a time of day may be yesterday's by now
	case $minutes-$(date +%H:%M) in 1:%H*-00:0?) continue ;; esac
	expect 0 "$spillway" events a --json --since "$then"
	python 'assert kinds() == ["burst"]'
done
expect 0 "$spillway" events a --json --since "$(date -d '+1 day' +@%s)"
python 'assert events == []'
# Without any choice: the last minute, and what comes, until it is interrupted.
$interruptible "$spillway" events a --json >"$out" 2>"$err" &
follower=$!
wait_for '"event":"burst"' "$out"
put share 0 -1000000 0 70000 0 0 0 0
wait_for '"set":70000' "$out"
kill -INT $follower
wait $follower
[ $? -eq 130 ] || fail 'it does not follow until interrupted'
python 'assert kinds() == ["burst", "share"]'
[ ! -s "$err" ] || fail 'a complaint'
for time in '' soon 10x -5 25:00 @ @x 2026-13-01; do
	expect 2 "$spillway" events --since "$time"
done
end_writer

# Of several processes and jobs: merged by time. They have ended; what they wrote can be read.
start_writer b b run
put step 0 3000 1 1 0 0 0 0
put step 0 1000 1 2 0 0 0 0
first=$pid first_from=$writing
exec 6>&7
start_writer c b run
put step 0 2000 1 3 0 0 0 0
put step 0 4000 1 4 0 0 0 0
end_writer
second=$pid
exec 6>&-
wait "$first" || fail "the first writer: $(cat "$TMPDIR/$first_from.from")"
$interruptible "$spillway" events b >"$out" 2>"$err" &
follower=$!
wait_for '^spillway: nothing happened in the last minute; --since 1h shows more' "$err"
kill -INT $follower
wait $follower
[ ! -s "$out" ] || fail 'events of the last minute, which had none'
expect 0 "$spillway" events --since @0 b --json
python '
assert [e["number"] for e in events] == [2, 3, 1, 4]
assert [e["process"] for e in events] == ['"$first, $second, $first, $second"']
'
expect 0 "$spillway" events --since @0 --json
python 'assert {e["job"] for e in events} == {"a", "b"} and len(events) == 25'

# State: each event once, across restarts of the reader; those of new processes from their first on.
expect 0 "$spillway" events b --json --state "$TMPDIR/state"
python 'assert len(events) == 4'
expect 0 "$spillway" events b --json --state "$TMPDIR/state"
python 'assert events == []'
start_writer d b run2 # another run: the rings of the last one are gone
put burst 0 5000 1 1 0 0 0 0
expect 0 "$spillway" events b --json --state "$TMPDIR/state"
python 'assert [e["begin_ns"] for e in events] == [5000]'
grep -q "^ring b\.$first-" "$TMPDIR/state" && fail 'the state keeps a ring that is gone'
# More than the ring holds: the rest is counted, and said where it was.
put burst 0 10000 1 1 0 0 0 0 8300
expect 0 "$spillway" events b --json --state "$TMPDIR/state"
python '
assert events[0]["event"] == "lost" and events[0]["records"] == 108, events[0]
assert len(events) == 8193 and events[1]["begin_ns"] == 10108
assert [e["begin_ns"] for e in events[1:]] == sorted(e["begin_ns"] for e in events[1:])
'
put burst 0 20000 1 1 0 0 0 0 8193
expect 0 "$spillway" events b --state "$TMPDIR/state" --since 1s
says "$out" "  b/$pid  1 events are lost: overwritten before they were read$"
[ "$(wc -l <"$out")" -eq 1 ] || fail 'more than the loss'
end_writer
cp "$TMPDIR/state" "$TMPDIR/good"
for damage in 's/reader 1/reader 9/' 's/^lost/last/' '$d' 's/^ring .*/ring x 1/' '1s/^/\x00/'; do
	sed "$damage" "$TMPDIR/good" >"$TMPDIR/state"
	expect 1 "$spillway" events b --state "$TMPDIR/state"
	says "$err" "^spillway: $TMPDIR/state: not the state of a reader of events"
done
expect 2 "$spillway" events b --state ''
expect 1 "$spillway" events b --state "$TMPDIR"
expect 1 "$spillway" events b --state /nonexistent/state

# Following: what is new comes, of new processes and of a job that is started again, and an
# interrupt ends it at the end of a line.
$interruptible "$spillway" events late --json --follow --state "$TMPDIR/late" >"$out" 2>"$err" &
follower=$!
start_writer e late one
put step 0 1 0 1 0 0 0 0
wait_for '"number":1,' "$out"
put step 0 2 0 2 0 0 0 0
wait_for '"number":2,' "$out"
end_writer
start_writer f late two
put step 0 3 0 3 0 0 0 0
wait_for '"number":3,' "$out"
kill -INT $follower
wait $follower
[ $? -eq 130 ] || fail 'interrupted, it does not end so'
python 'assert [e["number"] for e in events] == [1, 2, 3]'
put step 0 4 0 4 0 0 0 0
expect 0 "$spillway" events late --json --state "$TMPDIR/late"
python 'assert [e["number"] for e in events] == [4]'

# Interrupted at whatever moment: every line is whole, and with a state each event comes once.
rm -f "$TMPDIR/each"
: >"$TMPDIR/all"
put burst 0 100000 5 1 0 0 0 0 8000
put burst 0 110000 5 1 0 0 0 0 8
for moment in 1 2 3 4 5 6 7 8; do
	$interruptible "$spillway" events late --json --follow --state "$TMPDIR/each" >"$out" 2>"$err" &
	follower=$!
	# Until then the shell has it ignore SIGINT.
	until [ "$(cat "/proc/$follower/comm")" = spillway ]; do sleep 0.01; done
	sleep 0.0$moment
	kill -INT $follower 2>/dev/null
	wait $follower
	python 'pass'
	cat "$out" >>"$TMPDIR/all"
done
expect 0 "$spillway" events late --json --state "$TMPDIR/each"
cat "$out" >>"$TMPDIR/all"
cp "$TMPDIR/all" "$out"
python '
bursts = [e["begin_ns"] for e in events if e["event"] == "burst"]
assert sorted(bursts) == list(range(100000, 108000)) + list(range(110000, 110008)), len(bursts)
'
# Into a pipe that nobody empties for a while.
mkfifo "$TMPDIR/pipe"
$interruptible "$spillway" events --since @0 late --json >"$TMPDIR/pipe" 2>"$err" &
teller=$!
{
	sleep 0.2
	kill -INT $teller 2>/dev/null
	kill -INT $teller 2>/dev/null
	cat
} <"$TMPDIR/pipe" >"$out"
wait $teller
python 'assert len(events) > 0'
end_writer

# Damaged files: one line for each, the others are shown, and the status says so.
set -- "$SPILLWAY_STATE_DIR"/late.*.events
: >"$SPILLWAY_STATE_DIR/late.7-0000000000000007.events"
ln -s /dev/zero "$SPILLWAY_STATE_DIR/late.8-0000000000000008.events"
sed 's/SPILLRNG/SPILLXXX/' "$1" >"$SPILLWAY_STATE_DIR/late.9-0000000000000009.events"
expect 1 "$spillway" events --since @0 late --json
python 'assert len(events) >= 8000'
[ "$(wc -l <"$err")" -eq 3 ] || fail 'not one line for each damaged file'
says "$err" '^spillway: late\.7-0000000000000007\.events: not a ring of events$'
rm -f "$SPILLWAY_STATE_DIR"/late.?-*
# A job that cannot have any is not waited for, and one that is not there is refused.
expect 1 timeout 100 "$spillway" events nobody

# A trace.
start_writer g trace
put burst 0 1000000 2000 5 0 0 0 0
put burst 0 1001000 2000 6 0 0 0 0
put burst 0 1002000 500 7 0 0 0 0
put burst 0 1004000 10 8 0 0 0 0
put slot 0 1005000 3000 1 0 0 0 0
put turn 0 1000000 9000 0 0 0 0 0
put move 0 1006000 500 4096 1 1000 0 0
put step 0 1000000 9000 1 0 0 0 0
put limit 0 1000500 0 5000 5000 3000 0 0
put limit 0 1000600 0 18446744073709551615 0 3001 0 0
put share 0 1000600 0 60000 0 0 0 0
put spill 0 1000700 0 4096 device_full 3000 7f0000200000 3
put configuration -1 1000800 0 1 0 0 0 0
put burst 0 18446744073709551000 5000 1 0 0 0 0
end_writer
expect 0 "$spillway" events trace --chrome-trace "$TMPDIR/trace.json"
[ ! -s "$out" ] || fail 'lines beside the trace'
python3 - "$TMPDIR/trace.json" "$pid" <<'END' || fail 'the trace'
import sys
import trace
tracks, counters = trace.read(sys.argv[1])
process = next(iter(tracks))[0]
assert process.startswith("trace/%s write_events" % sys.argv[2]), process
names = {name for _, name in tracks}
assert names == {"gpu 0 " + n for n in ("bursts", "slots", "turns", "moves", "steps", "events")} | {"events"}, names
def track(name): return tracks[process, name]
assert [(e["ts"], e["dur"]) for e in sorted(track("gpu 0 bursts"), key=lambda e: e["ts"])] == [
    (1000, 2), (1001, 2), (1002, 0.5), (1004, 0.01)]
assert track("gpu 0 slots")[0]["args"] == {"why": "share"}
assert track("gpu 0 moves")[0]["args"] == {"bytes": 4096, "to": "host", "used": 1000}
assert {e["name"] for e in track("gpu 0 events")} == {"limit", "share", "spill"}
assert [e["name"] for e in track("events")] == ["configuration"]
def series(name, key): return [(e["ts"], e["args"][key]) for e in counters[process, name]]
assert series("gpu 0 memory limit", "bytes") == [(1000.5, 5000)]
assert series("gpu 0 memory used", "bytes") == [(1000.5, 3000), (1000.6, 3001), (1000.7, 3000), (1006.5, 1000)]
assert series("gpu 0 share", "millipercent") == [(1000.6, 60000)]
END
# Of what happens until it is interrupted.
$interruptible "$spillway" events follow --follow --chrome-trace "$TMPDIR/followed.json" >"$out" 2>"$err" &
follower=$!
start_writer h follow
put step 0 1000 1000 1 0 0 0 0
put step 0 3000 1000 2 0 0 0 0
tries=0
until grep -q '"number":2' "$TMPDIR"/followed.json.* 2>/dev/null || [ $tries -gt 1200 ]; do
	tries=$((tries + 1))
	sleep 0.05
done
kill -INT $follower
wait $follower
python3 - "$TMPDIR/followed.json" <<'END' || fail 'a trace that was followed'
import sys
import trace
tracks, _ = trace.read(sys.argv[1])
(_, name), steps = next(iter(tracks.items()))
assert name == "gpu 0 steps" and [(e["ts"], e["dur"]) for e in steps] == [(1, 1), (3, 1)], (name, steps)
END
end_writer
expect 0 "$spillway" events nothing-yet --state "$TMPDIR/none" --chrome-trace "$TMPDIR/empty.json"
python3 -c 'import sys, trace; assert trace.read(sys.argv[1]) == ({}, {})' "$TMPDIR/empty.json" || fail 'an empty trace'
expect 1 "$spillway" events trace --chrome-trace /nonexistent/trace.json
expect 2 "$spillway" events trace --chrome-trace ''
expect 2 "$spillway" events trace --json --chrome-trace "$TMPDIR/trace.json"
expect 2 "$spillway" events one two
finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway stat: no job, live jobs, ended jobs, damaged ones; text and JSON.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

json() { # json EXPRESSION: of the document d in $out
	python3 -c "import json,sys; d=json.load(open('$out')); sys.exit(not ($1))" || fail "not so: $1"
}

expect 0 "$spillway" stat
says "$out" "^no jobs in $SPILLWAY_STATE_DIR; jobs elsewhere are not seen without $SPILLWAY_NODE_DIR: see spillway doctor$"
expect 0 "$spillway" stat --json
json 'd["jobs"] == [] and d["state_directory"]'
expect 1 "$spillway" stat nobody
says "$err" "^spillway: no job 'nobody' in $SPILLWAY_STATE_DIR; there is none at all$"
expect 1 "$spillway" stat ../nobody
says "$err" '^spillway: .* cannot be a job'
expect 1 "$spillway" stat L2@zz
says "$err" "^spillway: 'L2@zz' cannot be a job: expected NAME or USER/NAME, with @ and up to 16 of 0-9 a-f after it"

printf '[gpu]\nmemory = 25%%\n' >"$TMPDIR/quarter.ini"
start_job one -m 12582912 -s 8388608 -i 7000000
one=$pid
SPILLWAY_CONFIG=$TMPDIR/quarter.ini
export SPILLWAY_CONFIG
SPILLWAY_SHARE=60 start_job two -m 4096 -c share_held=31400 -c share_estimated=1
two=$pid

expect 0 "$spillway" stat
says "$out" '^JOB +USER +STATE +PROCESSES +GPU +USED'
says "$out" '^one +[^ ]+ +running +1 +0 +12\.0 MiB +none +8\.00 MiB +8\.00 MiB +100 % +- +- +7\.00 ms +-$'
says "$out" '^two +[^ ]+ +running +1 +0 +4\.00 KiB +256 MiB +0 B +0 B +60 % +~31\.4% +0 ns '
says "$out" '^~ an estimate: programs that take no turns with this job use the GPU, too\.$'
says "$out" "after root's spillway doctor --setup --group GROUP$"
expect 0 "$spillway" stat two
says "$out" '^~ an estimate: '
expect 0 "$spillway" stat
expect 0 "$spillway" stat one
says "$out" '^job one: running since '
says "$out" '^ +0  Fake GPU +12\.0 MiB +12\.0 MiB +none +none +8\.00 MiB +8\.00 MiB +1 +8\.00 MiB$'
says "$out" "^ *$one +live +12\.0 MiB +8\.00 MiB +0 +0 +- +- +.*fake_job -m 12582912"
expect 0 "$spillway" stat one --json
json 'd["state"] == "running" and d["ended_ns"] is None'
json "d['processes'][0]['pid'] == $one"
json "d['processes'][0]['threads'] is None and d['processes'][0]['contexts'] is None"
json 'd["devices"][0]["spilled_bytes"] == 8388608 and d["devices"][0]["limit_set"] is None'
json 'd["devices"][0]["device_charged"] == 12582912 and d["devices"][0]["spill_reason"] == "limit"'
expect 0 "$spillway" stat --json
json '[j["job"] for j in d["jobs"]] == ["one", "two"] and d["jobs"][1]["devices"][0]["limit_set"] == 2**28'
# At 80 columns the list has fewer of them, and what is shown of a job goes on below; nothing of it
# is lost.
expect 0 env COLUMNS=80 "$spillway" stat
[ "$(wc -L <"$out")" -le 80 ] || fail 'the list is wider than 80 columns'
says "$out" '^two +[^ ]+ +running .* 4\.00 KiB +256 MiB +0 B +60 % +~31\.4%'
expect 0 "$spillway" stat two
tr -s ' ' '\n' <"$out" | sort -u >"$TMPDIR/wide"
expect 0 env COLUMNS=80 "$spillway" stat two
[ "$(wc -L <"$out")" -le 80 ] || fail 'what is shown of a job is wider than 80 columns'
[ "$(tr -s ' ' '\n' <"$out" | sort -u)" = "$(cat "$TMPDIR/wide")" ] || fail 'at 80 columns something is lost'
says "$out" '^GPU +[A-Z].*STEP'
# Of a job that has just begun nobody knows what it holds.
SPILLWAY_SHARE=60 start_job young -b 400000000
expect 0 "$spillway" stat young
says "$out" '^ +0 .* 60 % +- +no '
kill "$pid"
wait "$pid" 2>/dev/null
rm "$SPILLWAY_STATE_DIR"/young.*
expect 1 "$spillway" stat three
says "$err" "there are: one, two$"
# Of those that have ended there is but the number.
for i in 1 2 3; do SPILLWAY_JOB=ended-$i "$fake_job" -1 >/dev/null; done
expect 1 "$spillway" stat three
says "$err" "there are: one, two, and 3 that have ended \(spillway stat --all\)$"
rm "$SPILLWAY_STATE_DIR"/ended-*

# Memory that moves, and in words what is not as it was asked for.
says_not "$out" ELASTIC
SPILLWAY_MEMORY=8MiB start_job moves -m 12582912 -c elastic=1 -c demotions=3 -c demoted_bytes=6291456 \
	-c promotions=1 -c promoted_bytes=2097152 -c move_ns=5000000 -c move_longest_ns=2000000 -c move_pending=6 \
	-c pinned_chunks=4194304 -c limit_grown=4194304 -c provider=2 -c numa_error=800
expect 0 "$spillway" stat moves
says "$out" '^GPU +ELASTIC +DEMOTED +PROMOTED +MOVES +STALLED +LONGEST STALL +WAITS FOR$'
says "$out" '^ +0 +yes +6\.00 MiB +2\.00 MiB +4 +5\.00 ms +2\.00 ms +pinned$'
says "$out" '^gpu 0: a move waits: the memory that is left must stay where it is$'
says "$out" '^gpu 0: 12\.0 MiB in use, above the limit: exported, registered or pinned memory cannot leave the GPU \(pinned\)$'
says "$out" '^gpu 0: the limit has grown by 4\.00 MiB \(memory_max\)$'
says "$out" '^gpu 0: host memory by vmm_host \(vmm_numa: not permitted\)$'
says_not "$out" placement
sed -n '/ELASTIC/,/^$/p' "$out" | grep -v '^gpu ' >"$TMPDIR/moves"
[ "$(wc -L <"$TMPDIR/moves")" -le 80 ] || fail 'what is said of moves is wider than 80 columns'
expect 0 "$spillway" set moves --memory 8MiB
says "$out" '^gpu 0: limit 8\.00 MiB \(grown by 4\.00 MiB\), share 100 %; 12\.0 MiB in use: exported, registered or pinned memory cannot leave the GPU \(pinned\)\. New memory goes to the host until less than the limit is in use$'
kill "$pid"
wait "$pid" 2>/dev/null
# Why memory is on the host: the limit, though the GPU was full before; the past; an eviction.
SPILLWAY_MEMORY=8MiB start_job hosted -m 8388608 -s 1048576 -c spill_reason=3
expect 0 "$spillway" stat hosted
says "$out" '^gpu 0: 1\.00 MiB on the host: its limit of 8\.00 MiB is used up$'
expect 0 "$spillway" stat --json hosted
json 'd["devices"][0]["host_text"] == "its limit of 8.00 MiB is used up" and d["devices"][0]["refused_text"] is None'
expect 0 "$spillway" set hosted --memory 64MiB
expect 0 "$spillway" stat hosted
says "$out" '^gpu 0: 1\.00 MiB on the host: the GPU had no room for it$'
kill "$pid"
wait "$pid" 2>/dev/null
expect 0 "$spillway" stat --json hosted
json 'd["devices"][0]["host_text"] is None'
start_job away -m 4096 -s 1048576 -c spill_reason=1 -c evicted=1
expect 0 "$spillway" stat away
says "$out" "^gpu 0: 1\\.00 MiB on the host: the job is evicted: 'spillway resume away' brings it back\$"
kill "$pid"
wait "$pid" 2>/dev/null
rm "$SPILLWAY_STATE_DIR"/hosted* "$SPILLWAY_STATE_DIR"/away*
SPILLWAY_MEMORY=8MiB start_job waits -m 12582912 -c elastic=1 -c move_pending=2
expect 0 "$spillway" stat waits
says "$out" '^ +0 +yes .* +capture$'
says "$out" '^gpu 0: a move waits: a stream capture is active$'
says "$out" '^gpu 0: 12\.0 MiB in use, above the limit: memory is still being moved \(pending\)$'
kill "$pid"
wait "$pid" 2>/dev/null
rm "$SPILLWAY_STATE_DIR"/waits.*
# Each reason that there is has its sentence.
for code in 2 3 4 5; do
	start_job fixed$code -c elastic=$code -c move_pending=$((code + 3)) -c provider=4 -c managed_error=2
	expect 0 "$spillway" stat fixed$code
	says "$out" '^ +0 +no '
	says "$out" '^gpu 0: elastic no: [a-z]'
	says "$out" '^gpu 0: a move waits: [a-z]'
	says "$out" '^gpu 0: host memory by pinned \(managed: out of memory\)$'
	says_not "$out" unknown
	[ "$(sed -n '/ELASTIC/,/^$/p' "$out" | grep -v '^gpu ' | wc -L)" -le 80 ] || fail 'wider than 80 columns'
	kill "$pid"
	wait "$pid" 2>/dev/null
	rm "$SPILLWAY_STATE_DIR/fixed$code".*
done
# What decides where memory is, and what a survey found.
start_job placed -c elastic=1 -c placement=4 -c shrink=2 -c kernels_before=1286000 -c kernels_best=978000
expect 0 "$spillway" stat placed
says "$out" '^gpu 0: placement balanced \(measured: memory is where kernels lose least time\), shrink gentle$'
says "$out" '^gpu 0: measured over two steps: kernels take 13 times as long as with no memory on the host, with the best placement 9\.8 times \(24 % less\)$'
kill "$pid"
wait "$pid" 2>/dev/null
rm "$SPILLWAY_STATE_DIR"/placed.*
start_job placed -c elastic=1 -c placement=2 -c shrink=1
expect 0 "$spillway" stat placed
says "$out" '^gpu 0: placement survey \(measuring which memory kernels use\), shrink fast$'
says_not "$out" 'measured over'
kill "$pid"
wait "$pid" 2>/dev/null
rm "$SPILLWAY_STATE_DIR"/placed.*
# What a later version may say is no crash.
start_job later -c elastic=99 -c move_pending=99 -c provider=99 -c spill_reason=99 -c placement=99 -c shrink=99
for format in text json csv prometheus; do
	expect 0 "$spillway" stat later --format $format
	[ $format = prometheus ] || says "$out" unknown
done
kill "$pid"
wait "$pid" 2>/dev/null
rm "$SPILLWAY_STATE_DIR"/later.* "$SPILLWAY_STATE_DIR"/moves.*

# A complaint of a process is shown.
echo 'nonsense' >"$TMPDIR/quarter.ini"
tries=0
until "$spillway" stat two | grep -q "^process $two says: .*quarter.ini:1"; do
	tries=$((tries + 1))
	[ $tries -lt 1200 ] || break
	sleep 0.05
done
[ $tries -lt 1200 ] || fail 'the complaint of process two is not shown'

"$spillway" stat --watch 100ms >"$out" 2>"$err" &
watcher=$!
jobs_started="$jobs_started $watcher"
tries=0
until [ "$(grep -c '^one ' "$out")" -ge 3 ] || [ $tries -gt 1200 ]; do
	tries=$((tries + 1))
	sleep 0.05
done
[ $tries -le 1200 ] || fail '--watch did not show it again and again'
kill "$watcher"
wait "$watcher" 2>/dev/null

# Killed and ended jobs are counted, and with --all shown as ended.
kill "$one"
wait "$one" 2>/dev/null
expect 0 "$spillway" stat
says "$out" '^two +[^ ]+ +running '
says_not "$out" '^one '
says "$out" "^1 job has ended: 'spillway stat --all' lists it$"
kill -9 "$two"
wait "$two" 2>/dev/null
expect 0 "$spillway" stat
says "$out" '^no job runs$'
says "$out" "^2 jobs have ended: 'spillway stat --all' lists them$"
expect 0 "$spillway" stat --format csv
says "$out" '^one,'
expect 2 "$spillway" stat --all one
says "$err" '^spillway: --all: expected without a job'
expect 0 "$spillway" stat --all
says_not "$out" 'stat --all'
says "$out" '^one +[^ ]+ +ended +0 '
says "$out" '^two +[^ ]+ +ended +0 '
expect 0 "$spillway" stat one --json
json 'd["state"] == "ended" and d["ended_ns"] > d["created_ns"]'
json 'd["devices"][0]["spilled_bytes"] == 8388608 and d["devices"][0]["device_peak"] == 12582912'
start_job killed
kill -9 "$pid"
wait "$pid" 2>/dev/null
expect 0 "$spillway" stat killed
says_not "$out" draining
expect 0 "$spillway" stat --all
says "$out" '^killed +[^ ]+ +ended +0 '

# One that goes while all are looked at is none, and no fault.
flits() {
	while [ ! -e "$TMPDIR/enough" ]; do
		mv "$SPILLWAY_STATE_DIR/killed.segment" "$TMPDIR/away" && mv "$TMPDIR/away" "$SPILLWAY_STATE_DIR/killed.segment"
	done
}
flits &
flitting=$!
looks=0
while [ $failures -eq 0 ] && [ $looks -lt 200 ]; do
	looks=$((looks + 1))
	expect 0 "$spillway" stat --all
	[ ! -s "$err" ] || fail "what is said of one that goes: $(cat "$err")"
done
: >"$TMPDIR/enough"
wait $flitting

# A damaged segment: one clear line, and the others are shown.
echo 'no segment' >"$SPILLWAY_STATE_DIR/damaged.segment"
expect 1 "$spillway" stat damaged
says "$err" '^spillway: .*damaged'
expect 1 "$spillway" stat --all
says "$out" '^one +[^ ]+ +ended'
finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# A process under Spillway notes events and counters. Both agree, about memory and about time.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
PYTHONPATH=tests/e2e
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE
driven=

# python JOB CODE: with its events so far, and its counters on the first GPU
python() {
	"$spillway" events --since @0 "$1" --json >"$scratch/events"
	"$spillway" stat "$1" --json >"$scratch/stat"
	python3 - "$scratch/events" "$scratch/stat" <<-END || fail "not so: $2; $(cat "$scratch/events")"
		import json, sys
		events = [json.loads(line) for line in open(sys.argv[1])]
		stat = json.load(open(sys.argv[2]))
		def find(key, node=stat):
		    nodes = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
		    if isinstance(node, dict) and key in node and not isinstance(node[key], (dict, list)):
		        return node[key]
		    return next((v for v in (find(key, n) for n in nodes) if v is not None), None)
		def of(kind): return [e for e in events if e["event"] == kind]
		def total(kind, value, **where):
		    return sum(e[value] for e in of(kind) if all(e[k] == v for k, v in where.items()))
		mib = 1 << 20
		assert not of("lost")
		$2
	END
}
rings() { find "$SPILLWAY_STATE_DIR" -name '*.events' | wc -l; }

# Memory: what is allocated, spilled, moved, refused and freed.
ini=$scratch/events.ini
limit_file "$ini" $((64 * mib)) 'host_memory = 128MiB'
start_driven noted "$ini"
wants 0 alloc a 40960
wants 0 alloc b 300
limit_file "$ini" $((24 * mib)) 'host_memory = 128MiB'
until_true $patience counter_is noted limit_held $((24 * mib)) || fail "24 MiB are not reached"
wants 0 alloc c 40960
wants 2 alloc d 1048576
wants 0 free c
limit_file "$ini" $((128 * mib)) 'host_memory = 128MiB'
until_true $patience counter_is noted host_used 0 || fail "not all comes back"
limit_file "$ini" 8Gx
until_true $patience grep -q 8Gx "$scratch/driven-errors" || fail "the bad line is not said"
limit_file "$ini" $((128 * mib)) 'host_memory = 128MiB'
"$spillway" pause --timeout $patience noted >/dev/null
"$spillway" resume --timeout $patience noted >/dev/null
# A change by top, as its child, and one by the page.
python3 -c 'import os, sys; os.execv(sys.argv[1], ["spillway top", *sys.argv[2:]])' "$spillway" set noted --memory 128MiB --timeout $patience >/dev/null
control=--control
[ "$(id -u)" -ne 0 ] || control=--control-as-root
"$spillway" web $control >"$scratch/web" 2>&1 &
web=$!
until_true $patience grep -q '#' "$scratch/web" || fail "$(cat "$scratch/web")"
python3 - "$scratch/web" <<'END' || fail "the page changes nothing: $(cat "$scratch/web")"
import json, re, sys, urllib.error, urllib.request
url, code = re.search(r"(http://[0-9.:]+)/#(.*)", open(sys.argv[1]).read()).groups()
def ask(path, secret):
    headers = {"Authorization": "Bearer " + secret, "Origin": url}
    return json.load(urllib.request.urlopen(urllib.request.Request(f"{url}/api/v1/{path}", method="POST", headers=headers), timeout=100))
try:
    ask("set?job=noted&memory=128MiB", ask("session", code)["token"])
except urllib.error.HTTPError as error:
    assert b"does not follow" in error.read()  # on a busy machine it follows later
END
kill $web
wait $web || true
by_page() { "$spillway" events --since @0 noted --json | grep -q '"through":"page"'; }
until_true $patience by_page || fail "no event of the page's change"
python noted '
import os, pwd
user = pwd.getpwuid(os.getuid()).pw_name
causes = [(e["through"], e["by"]) for e in of("configuration")]
assert causes.count(("page", user)) == causes.count(("top", user)) == 1 and causes[-1] == ("page", user), causes
assert ("command", user) in causes and causes[0] == (None, None), causes
assert set(causes) == {(through, user) for through in ("page", "top", "command")} | {(None, None)}, causes
assert of("context")[0]["alive"] and find("contexts") in (None, 1)
handles = [(e["event"], e["resource"]) for e in events if e["event"] in ("allocation", "free")]
assert [kind for kind, _ in handles] == ["allocation", "allocation", "free"], handles
assert handles[1][1] == handles[2][1] != handles[0][1]
assert [e["bytes"] for e in of("allocation")] == [40 * mib] * 2
assert of("allocation")[0]["used"] >= 40 * mib
assert total("spill", "bytes") == find("spilled_bytes") and len(of("spill")) == find("spills") > 0
assert [e["resource"] for e in of("spill")] == [handles[1][1]], of("spill")
assert {e["reason"] for e in of("spill")} == {"limit"}
assert total("move", "bytes", to="host") == find("demoted_bytes") > 0
assert total("move", "bytes", to="device") == find("promoted_bytes") > 0
assert 0 < total("move", "duration_ns") <= find("move_ns")
assert [e["bytes"] for e in of("refusal")] == [1024 * mib] and find("refusals") == 1
limits = [(e["set"], e["held"]) for e in of("limit")]
assert limits[0][0] == 64 * mib and limits[-1] == (128 * mib, 128 * mib), limits
lowered = limits.index(next(l for l in limits if l[0] == 24 * mib))
assert limits[lowered][1] > 24 * mib and limits[lowered + 1] == (24 * mib, 24 * mib), limits
assert [e["accepted"] for e in of("configuration")].count(False) == 1
assert [e["set"] for e in of("share")] == [100000, 0, 100000]
assert len(of("pause")) == len(of("resume")) == 1
assert of("pause")[0]["begin_ns"] < of("resume")[0]["begin_ns"]
times = [e["begin_ns"] for e in events]
assert times == sorted(times)
'
# Of some kinds alone.
same "events of two kinds" "configuration limit " "$("$spillway" events --since @0 --kind limit,configuration noted --json |
	sed 's/.*"event":"\([a-z]*\)".*/\1/' | sort -u | tr '\n' ' ')"
# Of one resource alone.
resource=$("$spillway" events --since @0 noted --json | sed -n 's/.*"event":"free".*"resource":"\([^"]*\)".*/\1/p')
same "events of one resource" "allocation free spill " "$("$spillway" events --since @0 --resource "$resource" --json |
	sed 's/.*"event":"\([a-z]*\)".*/\1/' | sort | tr '\n' ' ')"
# A killed process's events can still be read; they go with the job.
process=${resource#/job:noted/process:}
kill -9 "${process%%/*}"
wait $driven || true
exec 8>&- 9<&-
driven=
python noted 'assert len(of("free")) == 1'
removed() {
	"$spillway" doctor --clean || true
	[ ! -e "$SPILLWAY_STATE_DIR/$1.segment" ]
}
until_true $patience removed noted || fail "the job is not removed"
same "rings of a job that is removed" 0 "$(rings)"

# Time: bursts are the busy time, slots lie between them, and the trace of a real run is one.
"$spillway" run --softgpu --quiet --name timed --memory 17065502B --share 60 "$build/clients/train_mlp" --epochs 3 >/dev/null
python timed '
assert total("burst", "duration_ns") == find("busy_ns") > 0
assert len(of("slot")) > 0 and {e["why"] for e in of("slot")} <= {"share"}
assert of("share")[0]["set"] == 60000
'
"$spillway" events timed --chrome-trace "$scratch/trace.json"
python3 - "$scratch/trace.json" <<'END' || fail "the trace of a real run"
import sys
import trace
tracks, counters = trace.read(sys.argv[1])
names = {name for _, name in tracks}
assert {"gpu 0 bursts", "gpu 0 slots", "gpu 0 events"} <= names, names
assert {"gpu 0 memory used", "gpu 0 memory limit", "gpu 0 share"} <= {name for _, name in counters}
bursts, slots = ([(e["ts"], e["ts"] + e["dur"]) for (_, n), events in tracks.items() if n == name for e in events]
                 for name in ("gpu 0 bursts", "gpu 0 slots"))
assert len(bursts) > 10 and len(slots) > 0
END

# Who was neither named nor limited nor paced has no ring; who was has one while it lives, unnamed.
until_true $patience removed timed || fail "the job is not removed"
hold() {
	: >"$scratch/out"
	env "$@" LD_PRELOAD="$shim" LD_LIBRARY_PATH="$softgpu" "$build/tests/e2e/allocate" --mib 4 --count 1 --rounds 100000 \
		--hold-ms 20 >"$scratch/out" 2>&1 &
	holder=$!
	until_true $patience grep -q "round 1:" "$scratch/out" || fail "not started: $(cat "$scratch/out")"
	now=$(rings)
	kill $holder
	wait $holder || true
}
hold NOTHING=1
same "rings of an unnamed process" 0 "$now"
for setting in SPILLWAY_JOB=held SPILLWAY_MEMORY=64MiB SPILLWAY_SHARE=90; do
	hold $setting
	same "rings with $setting" 1 "$now"
	rm -f "$SPILLWAY_STATE_DIR"/*.events
done
LD_PRELOAD="$shim" LD_LIBRARY_PATH="$softgpu" SPILLWAY_MEMORY=64MiB "$build/tests/e2e/allocate" --mib 4 --count 1 >/dev/null
same "rings of an unnamed process that has ended" 0 "$(rings)"

#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway stat: CSV, Prometheus, AntMan, a text file for a collector; in each every counter there
# is.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
PYTHONPATH=tests/e2e
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE

# python CODE...: with $out as bytes in data
python() {
	python3 - "$out" "$@" <<-END || fail "not so: $1"
		import csv, io, json, re, sys
		import exposition
		data = open(sys.argv[1], 'rb').read()
		def sample(metric, **labels):
		    return exposition.parse(data)[metric][2].get(tuple(sorted(labels.items())))
		counters = re.findall(r'^\t[CL]\((\w+), (\w+), (\w+),', open('core/ledger/statistics.h').read(), re.M)
		assert len(counters) > 15
		text = open('core/ledger/codes.h').read()
		codes = {name: re.findall(r'X\((\w+), "([^"]+)"\)', re.search(r'#define CODES_%s\(X\)(.*?)\n\n' % unit, text, re.S).group(1))
		    for name, _, unit in counters if 'CODES_%s(X)' % unit in text}
		assert len(codes) == 10, codes
		$1
	END
}

# Nothing yet: a header, groups without samples.
expect 0 "$spillway" stat --format csv
[ "$(wc -l <"$out")" -eq 1 ] || fail 'expected a header alone'
expect 0 "$spillway" stat --format prometheus
python 'assert sample("spillway_unreadable_jobs") == 0'

# shellcheck disable=SC1003 # a backslash
SPILLWAY_SHARE=60 start_job one -c elastic=2 -c move_pending=3 -c evicted=1 -c provider=3 -c placement=3 -c shrink=1 -c kernels_before=276000 -c host_error=801 -c share_held=34567 -c share_estimated=1 -m 12582912 -s 8388608 -i 7000000001 -b 2500000000 -u 'GPU-"\,'"$(printf '\n\351')"'x'
one=$pid
start_job two -m 4096

# CSV: the JSON's values, by any reader of CSV.
expect 0 "$spillway" stat --format csv
python '
rows = list(csv.DictReader(io.StringIO(data.decode("latin-1"), newline="")))
assert [r["job"] for r in rows] == ["one", "two"], rows
one, two = rows
assert one["uuid"].startswith("GPU-\"\\,?"), one
assert one["state"] == "running" and one["processes"] == "1" and one["gpu"] == "0"
assert one["spilled_bytes [B]"] == "8388608 B" and one["idle_ns [ns]"] == "7000000001 ns"
assert one["share_set [%]"] == "60.000 %" and one["spill_reason"] == "limit" and one["spills"] == "1"
assert one["share_held [%]"] == "34.567 %" and one["share_estimated"] == "1", one
assert one["share_apart"] == "0", one
assert two["share_held [%]"] == "" and two["share_estimated"] == "", two
assert (one["elastic"], one["move_pending"], one["held_reason"], one["provider"]) == ("no_vmm", "inside", "foreign", "managed")
assert two["elastic"] == "-" and one["host_error"] == "801"
# Of providers that were not tried, and of steps that nobody found, nothing is known.
assert (one["numa_error"], one["managed_error"], one["pinned_error"]) == ("", "0", ""), one
assert two["host_error"] == "" and two["step_ns [ns]"] == "", two
assert one["limit_set [B]"] == "" and two["busy_ns [ns]"] == "", (one, two)
assert one["device_charged [B]"] == "12582912 B" and one["memory [B]"] == "1073741824 B"
names = [re.sub(" .*", "", n) for n in one]
assert [n for n, _, _ in counters] == names[-len(counters):], names'
expect 0 "$spillway" stat two --format csv,noheader,nounits
python '
rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
assert len(rows) == 1 and rows[0][0] == "two" and "4096" in rows[0] and " " not in "".join(rows[0][9:]), rows'
expect 0 "$spillway" stat --format csv,nounits,noheader two
expect 1 "$spillway" stat --format csv three
[ ! -s "$out" ] || fail 'output for a job that is not there'

# Prometheus: base units, the unknown left out, no label of its own.
expect 0 "$spillway" stat --format prometheus
python '
m = exposition.parse(data)
uuid = "GPU-\"\\,??x"
me = __import__("os").popen("id -un").read().strip()
at = dict(spillway_job="one", user=me, gpu="0", UUID=uuid)
assert sample("spillway_device_used_bytes", **at) == 12582912
assert sample("spillway_spilled_bytes_total", **at) == 8388608
assert sample("spillway_spills_total", **at) == 1
assert sample("spillway_idle_seconds_total", **at) == 7.000000001
assert sample("spillway_busy_seconds_total", **at) == 2.5
assert sample("spillway_share_set_ratio", **at) == 0.6
assert sample("spillway_share_held_ratio", **at) == 0.34567 and sample("spillway_share_estimated", **at) == 1
assert len(m["spillway_share_held_ratio"][2]) == 1
assert sample("spillway_share_apart", **at) == 0
assert sample("spillway_spill_reason", reason="limit", **at) == 1
assert sample("spillway_spill_reason", reason="host_memory", **at) == 0
assert m["spillway_limit_set_bytes"][2] == {}
for name, label in dict(spill_reason="reason", move_pending="reason", held_reason="reason", elastic="state", provider="name", placement="name", shrink="name").items():
    of = [dict(s) for s in m["spillway_" + name][2] if dict(s)["spillway_job"] == "one"]
    words = [s[label] for s in of]
    assert words == [w for _, w in codes[name][1:]], (name, words, codes[name])
    assert sum(m["spillway_" + name][2][tuple(sorted(s.items()))] for s in of) == 1
assert sample("spillway_elastic", state="no_vmm", **at) == 1
assert sample("spillway_move_pending", reason="inside", **at) == 1
assert sample("spillway_held_reason", reason="foreign", **at) == 1
assert sample("spillway_provider", name="managed", **at) == 1
assert sample("spillway_placement", name="kept", **at) == 1 and sample("spillway_shrink", name="fast", **at) == 1
assert sample("spillway_kernels_before_ratio", **at) == 2.76
assert sample("spillway_host_error", **at) == 801
page = open("tools/man/spillway-stat.1.scd").read()
assert not [w for c in codes.values() for _, w in c[1:] if w != "yes" and "_%s_" % w.replace("_", "\\_") not in page]
assert len(m["spillway_busy_seconds_total"][2]) == 1
assert sample("spillway_processes", spillway_job="two", user=me) == 1
assert not any(k == "job" for _, _, s in m.values() for l in s for k, _ in l)
tail = {"bytes": "_bytes", "ns": "_seconds", "time": "_seconds", "millipercent": "_ratio"}
for name, how, unit in counters:
    metric = "spillway_" + re.sub("_(bytes|ns)$", "", name) + tail.get(unit, "") + ("_total" if how == "SUM" else "")
    assert metric in m, metric'

# AntMan: one job, its fields and names.
expect 0 "$spillway" stat one --format antman
python '
d = json.loads(data)
assert list(d) == ["gpuUsageInfo"] and list(d["gpuUsageInfo"]) == ["01:00.0"], d
gpu = d["gpuUsageInfo"]["01:00.0"]
assert gpu == {"deviceMemUsedMax": 12582912, "deviceMemUsedMin": 12582912, "deviceMemPoolSize": 12582912,
    "deviceMemStable": 12582912, "hostMemUsedMax": 8388608, "hostMemUsedMin": 8388608,
    "hostMemPoolSize": 8388608, "swapReason": "OOM", "deviceMemUsedNvidia": -1}, gpu
page = open("tools/man/spillway-stat.1.scd").read()
assert not [k for k in gpu if "*" + k + "*" not in page]'
expect 0 "$spillway" stat two --format antman
python 'assert json.loads(data)["gpuUsageInfo"]["01:00.0"]["swapReason"] == ""'

# JSON has an option of its own and is a format too.
expect 0 "$spillway" stat two --format json
cp "$out" "$TMPDIR/json"
expect 0 "$spillway" stat two --json
cmp -s "$out" "$TMPDIR/json" || fail '--json and --format json differ'
python 'd = json.loads(data)["devices"][0]; assert d["busy_ns"] is None and d["share_held"] is None and d["step_ns"] is None and d["numa_error"] is None and not [n for n, _, _ in counters if n not in d]'

# The text file: as one step, readable by its collector; nothing else is left beside it.
mkdir "$TMPDIR/collector"
file=$TMPDIR/collector/spillway.prom
(umask 077 && echo old >"$file")
exec 3<"$file"
expect 0 "$spillway" stat --textfile "$file"
[ ! -s "$out" ] || fail '--textfile printed something'
[ "$(cat <&3)" = old ] || fail 'the old file was written to'
exec 3<&-
[ "$(stat -c %a "$file")" = 644 ] || fail 'the text file cannot be read by others'
cp "$file" "$out"
python 'assert sample("spillway_processes", spillway_job="one", user=__import__("os").popen("id -un").read().strip()) == 1'
expect 1 "$spillway" stat --textfile "$TMPDIR/nowhere/spillway.prom"
says "$err" '^spillway: .*/nowhere/spillway\.prom: No such file or directory$'
mkdir "$TMPDIR/collector/folder"
expect 1 "$spillway" stat --textfile "$TMPDIR/collector/folder"
says "$err" '^spillway: .*/folder: Is a directory$'
[ "$(ls "$TMPDIR/collector")" = "$(printf 'folder\nspillway.prom')" ] || fail "left: $(ls "$TMPDIR/collector")"

# Again and again, in every format; one bad job ends nothing.
echo 'no segment' >"$SPILLWAY_STATE_DIR/damaged.segment"
rm "$file"
"$spillway" stat --watch 20ms --textfile "$file" 2>/dev/null &
watcher=$!
wait_for 'spillway_processes{spillway_job="one",user="[^"]*"} 1' "$file"
kill "$one"
wait "$one" 2>/dev/null
wait_for 'spillway_processes{spillway_job="one",user="[^"]*"} 0' "$file"
says "$file" '^spillway_unreadable_jobs 1$'
kill "$watcher" || fail 'the watch has ended by itself'
wait "$watcher" 2>/dev/null
"$spillway" stat two --watch 20ms --format csv,nounits >"$TMPDIR/csv" &
watcher=$!
jobs_started="$jobs_started $watcher"
until_three() { [ "$(grep -c '^two,' "$TMPDIR/csv")" -ge 3 ]; }
tries=0
until until_three || [ $tries -gt 1200 ]; do
	tries=$((tries + 1))
	sleep 0.05
done
until_three || fail '--watch did not show it again and again'
[ "$(grep -c '^job,' "$TMPDIR/csv")" -eq 1 ] || fail 'expected the header once'
rm "$SPILLWAY_STATE_DIR/two.segment"
wait "$watcher" 2>/dev/null
[ $? -eq 1 ] || fail 'the watch of a job that is gone: expected status 1'

expect 2 "$spillway" stat --format xml
says "$err" "^spillway: --format 'xml': expected text, json, csv"
expect 2 "$spillway" stat --format csv,header
expect 2 "$spillway" stat --format csv,
expect 2 "$spillway" stat --json --format csv
expect 2 "$spillway" stat --json --textfile x
expect 2 "$spillway" stat --textfile ''
expect 2 "$spillway" stat --format antman
says "$err" '^spillway: --format antman: expected a job$'
finish

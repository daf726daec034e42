#!/bin/sh
# SPDX-License-Identifier: MIT
# A program that got around an enforced limit is named: by stat, doctor, the JSON and the metrics.
# One that is in a job is not, nor is the probe of the driver.
set -eu
# shellcheck source=tests/cluster/node.sh
. tests/cluster/node.sh
[ "$(id -u)" -eq 0 ] || {
	echo "needs root, who sees the jobs of all users"
	exit 77
}
mib=1048576
install -d -m 1777 /run/spillway
preloaded yes
configured '[ceiling]' 'enforce = yes' '[gpu]' 'memory = 24MiB'
uuid=GPU-7370696c-6c77-6179-2073-6f6674677000

# The loader passes over the shim where RLIMIT_AS has no room for it; the limit is raised a moment
# later from outside. The least limit that lets the program start is found by trying.
cat >"$scratch/escape.py" <<'END'
import os, resource, subprocess, sys, time
ready, program = sys.argv[1], sys.argv[2:]
unlimited = resource.RLIM_INFINITY, resource.RLIM_INFINITY
for mib in 10 * [1, 2, 3, 4, 5, 6, 8, 10, 12]:  # on a busy machine the limit may be raised too late
    for tenth in range(0, 10, 2):
        limit = int((mib + tenth / 10) * (1 << 20)), resource.RLIM_INFINITY
        child = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
        said = child.stderr.readline()
        try:
            resource.prlimit(child.pid, resource.RLIMIT_AS, unlimited)
        except ProcessLookupError:
            pass
        while b"cannot be preloaded" in said and child.poll() is None:
            if os.path.exists(ready):
                print(child.pid, flush=True)
                sys.exit(child.wait())
            time.sleep(0.01)
        child.kill()
        child.wait()
END
python3 "$scratch/escape.py" "$scratch/ready.escaped" "$node/bin/allocate" --mib 8 --count 4 --until "$scratch/end" \
	--ready "$scratch/ready.escaped" >"$scratch/escaped" 2>&1 &
until_true $((4 * patience)) test -s "$scratch/escaped" || fail "no program got around the limit: $(cat "$scratch/escaped")"
escaped=$(cat "$scratch/escaped")
"$node/bin/allocate" --mib 8 --count 2 --until "$scratch/end" --ready "$scratch/ready.in_job" >"$scratch/in_job" 2>&1 &
in_job=$!
until_true $patience test -e "$scratch/ready.in_job" || fail "the job: not ready: $(cat "$scratch/in_job")"
same "both hold memory" $((48 * mib)) "$(device_bytes)"

told=$("$spillway" stat)
has stat "$told" "without Spillway, so beyond every limit: process $escaped of root ($node/bin/allocate --mib 8 --count 4"
has stat "$told" "holds 32.0 MiB of $uuid"
same "stat: programs without Spillway" 1 "$(echo "$told" | grep -c 'without Spillway')"
"$spillway" stat --json >"$scratch/json"
python3 - "$scratch/json" "$escaped" <<'END' || fail "json: $(cat "$scratch/json")"
import json, sys
found = json.load(open(sys.argv[1]))["without_spillway"]
assert [(p["pid"], p["user"], p["device_used"]) for p in found["processes"]] == [(int(sys.argv[2]), "root", 32 << 20)], found
assert found["not_judged"] == 0, found
END
PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/schema.py node="$scratch/json" || fail 'json: not as conf/json/schema.json has it'
told=$("$spillway" doctor || true)
has doctor "$told" "no  without Spillway: process $escaped of root"
has doctor "$told" "try: kill $escaped"
! echo "$told" | grep "process $in_job " || fail "doctor names the job's process"

# The exporter names it at the second page that is asked for.
"$spillway" stat --listen 127.0.0.1:0 >"$scratch/listen" 2>&1 &
exporter=$!
until_true $patience grep -q 'http://' "$scratch/listen" || fail "listen: $(cat "$scratch/listen")"
url=$(grep -o 'http://[^ ]*' "$scratch/listen" | head -n 1)
page() { python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' "$url"; }
has "the first page" "$(page)" "spillway_gpu_unmanaged_processes{UUID=\"$uuid\"} 0"
named() { page | grep -q "^spillway_gpu_unmanaged_processes{UUID=\"$uuid\"} 1\$"; }
until_true $patience named || fail "metrics: $(page | grep unmanaged)"
has metrics "$(page)" "spillway_gpu_unmanaged_bytes{UUID=\"$uuid\"} $((32 * mib))"
has metrics "$(page)" "spillway_enforced 1"
kill $exporter
: >"$scratch/end"
wait
! "$spillway" stat | grep 'without Spillway' || fail 'a program that has ended is named'

# The probe of the driver holds memory as well. It is known by its file: the same program elsewhere
# is named.
preloaded no
rm "$scratch/end"
cp "$node/bin/allocate" "$scratch/other"
mount --bind "$node/bin/allocate" "$lib/driver-probe"
for program in "$lib/driver-probe" "$scratch/other"; do
	"$program" --mib 8 --count 1 --until "$scratch/end" --ready "$scratch/ready.${program##*/}" >/dev/null 2>&1 &
	other=$! # of the last
	until_true $patience test -e "$scratch/ready.${program##*/}" || fail "$program: not ready"
done
told=$("$spillway" stat)
has "stat beside a probe" "$told" "process $other of root"
same "stat beside a probe: named" 1 "$(echo "$told" | grep -c 'without Spillway')"

# Not known differs from none; and where nothing is enforced it is no fault.
mount --bind /dev/null "$node/driver/libnvidia-ml.so.1"
has "stat without NVML" "$("$spillway" stat)" "programs without Spillway: not known: NVML does not list those on the GPUs"
has "json without NVML" "$("$spillway" stat --json)" '"without_spillway":null'
umount "$node/driver/libnvidia-ml.so.1"
configured '[gpu]' 'memory = 24MiB'
! "$spillway" stat | grep 'without Spillway' || fail 'stat names programs where nothing is enforced'
has "doctor, not enforced" "$("$spillway" doctor || true)" "ok  without Spillway: process $other of root"
: >"$scratch/end"
wait

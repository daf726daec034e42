#!/bin/sh
# SPDX-License-Identifier: MIT
# turn = exclusive on several devices: a job has all of its devices or none. Two jobs on both
# devices and one on the first have turns that never overlap on a device. Each turn is of all
# devices of its job at the same time. No job waits for ever. When two are killed the third goes on.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/exclusive.sh
. tests/e2e/exclusive.sh

# has_turns JOB COUNT: on its first device
has_turns() { [ "$("$spillway" events --since @0 "$1" | grep -c '  gpu 0  turn ')" -ge "$2" ]; }
starts left --ranks 2
left=$!
starts right --ranks 2
right=$!
starts single
single=$!
for job in left right single; do
	until_true $patience has_turns "$job" 3 || fail "$job has few turns: $(cat "$scratch/$job.errors"; "$spillway" stat "$job")"
done
for job in left right single; do
	"$spillway" events --since @0 "$job" --json | grep '"event":"turn"' >"$scratch/$job.turns"
done
python3 - "$scratch" <<'END' || fail "turns of several devices: $(cat "$scratch"/*.turns)"
import json, sys
spans = {}
for job in ("left", "right", "single"):
    for line in open(f"{sys.argv[1]}/{job}.turns"):
        e = json.loads(line)
        spans.setdefault((job, e["gpu"]), []).append((e["begin_ns"], e["begin_ns"] + e["duration_ns"]))
for job in ("left", "right"):
    both = min(len(spans[job, 0]), len(spans[job, 1])) # one may just have ended
    assert spans[job, 0][:both] == spans[job, 1][:both] and both >= 2, (job, spans)
assert ("single", 1) not in spans, spans
for gpu in (0, 1):
    of = sorted((begin, end, job) for (job, g), list_ in spans.items() if g == gpu for begin, end in list_)
    for before, after in zip(of, of[1:]):
        assert before[1] <= after[0], (gpu, before, after)
END
kill -KILL "$(pid_of left)" "$(pid_of single)"
wait $left 2>/dev/null || true
wait $single 2>/dev/null || true
before=$(counter right launches)
goes_on() { counter_at_least right launches $((before + 1000)); }
until_true $patience goes_on || fail "right does not go on: $("$spillway" stat right)"
alone() { [ "$(counter right turn_state)" = free ]; }
until_true $patience alone || fail "right: its turn is $(counter right turn_state) although it is alone"
kill -KILL "$(pid_of right)"
wait $right 2>/dev/null || true

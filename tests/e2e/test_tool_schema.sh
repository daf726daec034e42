#!/bin/sh
# SPDX-License-Identifier: MIT
# Each JSON document of a real run is one of conf/json/schema.json. The runs are of jobs that spill,
# are refused memory, share a GPU and have ended. The schema names every figure as statistics.h
# does.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
python3 -c 'import jsonschema' 2>/dev/null || {
	echo 'python3 has no jsonschema (apt-get install python3-jsonschema)'
	exit 77
}
export PYTHONDONTWRITEBYTECODE=1
allocate=$build/tests/e2e/allocate
mkdir "$SPILLWAY_NODE_DIR"

# is DEFINITION NAME COMMAND...: its output, which stays in $scratch/NAME, is to be as that
# definition has it
documents=
is() {
	documents="$documents $1=$scratch/$2" name=$2
	shift 2
	"$@" >"$scratch/$name" || fail "$*: status $?"
}
is node nothing "$spillway" stat --json

"$spillway" run --softgpu --summary json --name spills --memory 16MiB --share 60 \
	"$allocate" --count 4 --mib 8 2>"$scratch/summary" >"$scratch/said" || fail "spills: $(cat "$scratch/summary")"
is summary spills_summary cat "$scratch/summary"
SPILLWAY_SPILL=off "$spillway" run --softgpu --summary json --name refused --memory 16MiB \
	"$allocate" --count 4 --mib 8 2>&1 >"$scratch/said" | grep '^{' >"$scratch/summary" || fail "refused: $(cat "$scratch/said")"
is summary refused_summary cat "$scratch/summary"

LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu SPILLWAY_JOB=lives SPILLWAY_MEMORY=16MiB SPILLWAY_SHARE=60 \
	"$allocate" --count 3 --mib 8 --hold-ms 600000 --ready "$scratch/ready" >"$scratch/said" 2>&1 &
until_true $patience test -e "$scratch/ready" || fail "lives: not ready: $(cat "$scratch/said")"
tells() { "$spillway" stat --json lives | grep '"sharing":{'; }
until_true $patience tells || fail 'the job does not say how it shares the GPU'
is node all "$spillway" stat --json
for job in spills refused lives; do
	is job_alone $job "$spillway" stat --json $job
	! built_in events || is event "events.$job" "$spillway" events --since @0 --json $job
done
for said in '"limit_set":16777216' '"sharing":{' '"state":"ended"' '"refused_reason":"memory"'; do
	has 'the run' "$(cat "$scratch/all")" "$said"
done
if built_in events; then
	has 'events' "$(cat "$scratch/events.refused")" '"event":"refusal"'
	has 'events' "$(cat "$scratch/events.spills")" '"event":"spill"'
fi
if built_in resources; then
	is resources resources "$spillway" stat --resources --json lives
	handle=$(grep -o '/job:lives[^"]*/allocation/[0-9a-f]*' "$scratch/resources" | head -n 1)
	is handles found "$spillway" stat --resources --json lives "$handle"
	"$spillway" stat --resources --json lives "${handle%????????????}ffffffffffff" >"$scratch/gone" && fail 'a handle of nothing is found'
	is handles gone_too cat "$scratch/gone"
fi

# A page alone: its state directory is out of reach where everybody may write to it.
mkdir -m 700 "$scratch/elsewhere"
chmod 777 "$SPILLWAY_STATE_DIR"
is node pages env SPILLWAY_STATE_DIR="$scratch/elsewhere" "$spillway" stat --json
chmod 700 "$SPILLWAY_STATE_DIR"
has 'pages' "$(cat "$scratch/pages")" '"process_count":1'
kill $!

# shellcheck disable=SC2086 # a list
python3 tests/e2e/schema.py $documents >"$scratch/wrong" || fail "not as the schema has it: $(head -n 20 "$scratch/wrong")"
python3 - <<'END' || fail 'the schema and core/ledger/statistics.h differ'
import json, re
text = open("core/ledger/statistics.h").read()
block = re.search(r"#define STATISTICS_OF\(C, L\)(.*?)#define STATISTICS\(X\)", text, re.S).group(1).replace("\\\n", " ")
rows = re.findall(r'[CL]\((\w+), \w+, (\w+),\s*"([^"]*)"\)', block)
units = {"bytes", "count", "ns", "time", "millipercent", "error"}
wanted = {name: f"{unit if unit in units else 'code'}: {meaning}" for name, unit, meaning in rows}
definitions = json.load(open("conf/json/schema.json"))["definitions"]
found = {name: of["description"] for name, of in definitions["statistics"]["properties"].items()}
assert len(wanted) > 40 and found == wanted, set(found.items()) ^ set(wanted.items())
assert sorted(definitions["statistics"]["required"]) == sorted(wanted)
END

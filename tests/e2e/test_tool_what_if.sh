#!/bin/sh
# SPDX-License-Identifier: MIT
# A run is recorded while all of its memory is on the GPU. what-if predicts from the job and from
# the file, as text, JSON and a picture.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
SPILLWAY_NODE_DIR=$TMPDIR/node
export SPILLWAY_NODE_DIR
mkdir -m 1777 "$SPILLWAY_NODE_DIR"
spillway=$(cd "$BUILD" && pwd)/spillway # beside the software GPU
record=$TMPDIR/run.rec

# start_recorded NAME FILE [OPTION...]: a training of which a survey is there; its number in $runs
start_recorded() {
	survey=$SPILLWAY_STATE_DIR/$1.survey-0 tries=1200
	name=$1 file=$2
	shift 2
	SOFTGPU_KERNEL_TIME_US=300 "$spillway" run --softgpu --quiet --name "$name" --record "$file" "$@" \
		"$BUILD/clients/train_mlp" --hidden 16 --epochs 100000 --quiet >"$TMPDIR/said" 2>&1 &
	runs=$!
	while [ ! -e "$survey" ]; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] && kill -0 $runs || {
			fail "no steps were measured: $(cat "$TMPDIR/said")"
			finish
		}
		sleep 0.05
	done
}
start_recorded bert "$record"
# The job lives, and is asked.
expect 0 "$spillway" what-if bert
says "$out" '^bert, GPU 0 \(Spillway software GPU\): a step takes '
says "$out" '^link to host memory: .*, modelled link: nothing was on the host'
says "$out" '^ *LIMIT +ON HOST +STEP +RANGE +TIMES +READ FROM HOST$'
says "$out" '^within 10 %: --memory [0-9]+MiB'
# So it is by each of its names, also from elsewhere on the node.
says_not "$out" SHARE
# A living job is asked about at its own share.
expect 0 "$spillway" set bert --share 60 --timeout 100
expect 0 "$spillway" what-if bert
says "$out" '^ *LIMIT +SHARE +ON HOST '
says "$out" ' 60 % '
expect 0 "$spillway" what-if bert --share 100
says_not "$out" SHARE
expect 0 "$spillway" set bert --share 100 --timeout 100
token=$("$spillway" stat bert --json | sed 's/.*"token":"\([0-9a-f]*\)".*/\1/')
for name in "bert@$token" "$(id -un)/bert" "$(id -un)/bert@$token"; do
	expect 0 env SPILLWAY_STATE_DIR="$TMPDIR/elsewhere" "$spillway" what-if "$name"
	says "$out" '^bert, GPU 0 '
done
expect 0 "$spillway" what-if "bert@$token"
case $token in 0*) wrong=1 ;; *) wrong=0 ;; esac
expect 1 "$spillway" what-if bert@$wrong
says "$err" "^spillway: no job 'bert@$wrong'"
kill $runs
wait $runs
[ -s "$record" ] || fail "nothing was recorded: $(cat "$TMPDIR/said")"

# The file says the same, and a slower link costs more.
expect 0 "$spillway" what-if "$record" --memory 75%,16MiB --share 50,100 --link 100MB/s,1GB/s
says "$out" '^link to host memory: 100 MiB/s, as given$'
[ "$(grep -c ' %  ' "$out")" -eq 8 ] || fail 'not a row for each limit, share and link'
expect 0 "$spillway" what-if "$record" --json --memory 100%,25% --link 10MB/s
python3 - "$out" <<'END' || fail 'JSON'
import json, sys

with open(sys.argv[1], encoding="utf-8") as file:
    said = json.load(file)
whole, quarter = said["points"]
assert said["schema"] == 1 and said["job"] == "bert" and said["has_steps"] and said["link_source"] == "modelled", said
assert whole["host"] == 0 and whole["times"] == 1 and whole["bus"] == 0, whole
assert quarter["host"] > 0 and quarter["bus"] > 0 and quarter["times"] > 2, quarter
assert quarter["low_ns"] <= quarter["step_ns"] <= quarter["high_ns"], quarter
assert said["fixed"] <= said["recommended"]["limit"] <= said["held"] and said["recommended"]["times"] <= 1.1, said
END
if python3 -c 'import jsonschema' 2>/dev/null; then
	PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/schema.py what_if="$out" || fail 'the document is not in the schema'
fi
expect 0 "$spillway" what-if "$record" --link 10MB/s --svg "$TMPDIR/curve.svg"
python3 -c 'import sys, xml.etree.ElementTree as tree; assert tree.parse(sys.argv[1]).getroot().tag.endswith("svg")' "$TMPDIR/curve.svg" ||
	fail 'the picture is no SVG'
expect 0 "$spillway" what-if "$record" "$record"
[ "$(grep -c 'iB .*iB .* [0-9.]*$' "$out")" -ge 5 ] || fail 'two jobs: not a row for each split'

# Where no steps are looked for it is the busy time of each second.
printf '[gpu]\nsteps = off\n' >"$TMPDIR/off.ini"
start_recorded server "$TMPDIR/server.rec" --config "$TMPDIR/off.ini"
kill $runs
wait $runs
expect 0 "$spillway" what-if "$TMPDIR/server.rec" --memory 100%
says "$out" '^server, GPU 0 \(Spillway software GPU\): no steps; kernels run for [0-9]+ ms of a second, with '
busy=$(sed -n 's/.*kernels run for \([0-9]*\) ms of a second.*/\1/p' "$out")
[ "${busy:-0}" -ge 1 ] && [ "${busy:-0}" -le 1000 ] || fail "busy for $busy ms of a second"
says "$out" "^ *[0-9.]+ MiB +0 B +$busy ms "

# What is no record, or of nothing that was measured, is said.
head -n 20 "$record" >"$TMPDIR/cut.rec"
expect 1 "$spillway" what-if "$TMPDIR/cut.rec"
says "$err" '^spillway: .*/cut.rec: line [0-9]+ is not as a record'
expect 1 "$spillway" what-if "$TMPDIR/none.rec"
says "$err" '/none.rec: No such file or directory$'
expect 1 "$spillway" what-if "$record" --gpu 3
says "$err" 'no steps were measured on GPU 3; on GPU 0 they were$'
expect 0 "$spillway" run --softgpu --quiet --name short "$BUILD/clients/train_mlp" --hidden 16 --epochs 1 --quiet
expect 1 "$spillway" what-if short
says "$err" '^spillway: short: no steps were measured; '
expect 2 "$spillway" what-if
expect 2 "$spillway" what-if bert --memory 20
expect 2 "$spillway" what-if bert --share 0
expect 2 "$spillway" what-if bert --link fast
# A new run of the name has none of the last one's.
[ -e "$SPILLWAY_STATE_DIR/bert.survey-0" ] || fail 'the survey is gone before its job'
expect 0 "$spillway" run --quiet --name bert true
[ ! -e "$SPILLWAY_STATE_DIR/bert.survey-0" ] || fail 'the survey of an earlier run is there'
finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# Steps are found in a program's launches while it is paced, or where the configuration asks for
# them; else nothing looks.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/pace.sh
. tests/e2e/pace.sh
train=$build/clients/train_mlp

check() { # check NAME SETTING: what the program says of its steps is what is told of them
	# Long enough: nothing is told in the first two seconds.
	SOFTGPU_KERNEL_TIME_US=300 "$spillway" run --softgpu --quiet --name "$1" --share "$2" "$train" --hidden 16 --epochs 24 --quiet >"$scratch/out" 2>&1 ||
		fail "$1: exit status $?: $(cat "$scratch/out")"
	said=$(sed -n 's/.* steps=\([0-9]*\).*/\1/p' "$scratch/out") told=$(counter "$1" steps)
	awk -v told="$told" -v said="$said" 'BEGIN { exit !(told >= 0.98 * said && told <= 1.02 * said) }' ||
		fail "$1: $told steps told, the program took $said"
	# The time of a step is the program's, with validations and waits: both divide one interval.
	awk -v us="$(sed -n 's/.* step_ms=\([0-9.]*\).*/\1/p' "$scratch/out")" -v ns="$(counter "$1" step_ns)" \
		'BEGIN { exit !(ns > us * 1e6 * 0.85 && ns < us * 1e6 * 1.15) }' ||
		off "$1: a step of $(counter "$1" step_ns) ns: $(cat "$scratch/out")"
}
undisturbed check paced 95

printf '[gpu]\nsteps = on\n' >"$scratch/on.ini"
SPILLWAY_CONFIG=$scratch/on.ini undisturbed check wanted 100
[ "$(counter wanted idle_ns)" -eq 0 ] || fail "looking for steps has paced the program"
printf '[gpu]\nsteps = off\n' >"$scratch/off.ini"
SPILLWAY_CONFIG=$scratch/off.ini "$spillway" run --softgpu --quiet --name unwanted --share 95 "$train" --hidden 16 --epochs 12 --quiet \
	>/dev/null
[ "$(counter unwanted steps)" -eq 0 ] || fail "steps = off: $(counter unwanted steps) steps"
"$spillway" run --softgpu --quiet --name unpaced "$train" --hidden 16 --epochs 12 --quiet >/dev/null
[ "$(counter unpaced steps)" -eq 0 ] || fail "unpaced: $(counter unpaced steps) steps"

# Where steps are looked for in a part of the launches alone, while spilled memory is weighed, those
# that were seen are told as such.
"$spillway" run --softgpu --name partly --memory 64MiB "$train" --scale 4 --epochs 45 --quiet >"$scratch/out" 2>"$scratch/said"
seen=$(counter partly steps)
[ "$seen" -gt 0 ] && [ "$seen" -lt 1950 ] || fail "a survey ended, and $seen steps of 2025 were counted: $(cat "$scratch/said")"
grep -q "; $seen steps seen, of " "$scratch/said" || fail "steps in part: $(cat "$scratch/said")"
"$spillway" stat partly | grep -q " $seen+ " || fail "stat: $("$spillway" stat partly)"
"$spillway" stat wanted | grep -q " $(counter wanted steps) " || fail "stat: $("$spillway" stat wanted)"

# They are events, too, from when they are found.
"$spillway" events --since @0 wanted --json >"$scratch/events"
grep -q '"event":"step".*"number":[0-9]' "$scratch/events" || fail "no event: $(tail -n 3 "$scratch/events")"

# The step that runs is among the resources of who asks, by its number, and goes with its end.
SPILLWAY_CONFIG=$scratch/on.ini SOFTGPU_KERNEL_TIME_US=300 "$spillway" run --softgpu --quiet --name asked \
	"$train" --hidden 16 --epochs 1000000 --quiet >/dev/null &
step_of() { "$spillway" stat asked --resources | sed -n 's,.*/gpu:0/step\([0-9]*\)/step_statistics/record$,\1,p'; }
is_told() { first=$(step_of) && [ -n "$first" ]; }
until_true $patience is_told || fail "no record of the step: $("$spillway" stat asked --resources)"
goes_on() { now=$(step_of) && [ "${now:-0}" -gt "$first" ]; }
until_true $patience goes_on || fail "the step that was asked about is still there: $first"

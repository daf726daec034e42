#!/bin/sh
# SPDX-License-Identifier: MIT
# turn = exclusive for a job with a process per rank and device. A rank that has left its device may
# launch kernels for which another rank's kernels wait. Otherwise that rank could not leave. Each
# time that its turn ends the ranks have launched differently far.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/exclusive.sh
. tests/e2e/exclusive.sh

# has_turns JOB GPU COUNT
has_turns() { [ "$("$spillway" events --since @0 "$1" | grep -c "  gpu $2  turn ")" -ge "$3" ]; }
says() { cat "$scratch/$1.errors" && "$spillway" stat "$1"; }

# Who waits for its turn for two minutes goes on without any, and a busy machine takes that long now
# and then, because it runs the rank too late that others wait for: it is not so three times.
have_turns() { has_turns "$1" 0 4 && has_turns "$1" 1 4 && has_turns "$2" 0 4; }
had=
for try in 1 2 3; do
	starts "ranks$try" --ranks 2 --processes
	starts "single$try"
	if until_true 30 have_turns "ranks$try" "single$try"; then
		had=$try
		break
	fi
	said=$(says "ranks$try")
	end_started
	mark_started
done
[ -n "$had" ] || fail "few turns: $said"
! grep "turns are fine" "$scratch/ranks$had.errors" "$scratch/single$had.errors" || fail "turns were not had"

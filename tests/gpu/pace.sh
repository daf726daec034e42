# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034
# For the checks of pacing, which source it after needs.sh: runs of a load with NVML looking on, and
# the table's lines.
# PACE_SECONDS: how long a run is (10; 3 on the software GPU); PACE_SHARES: shares that a load alone
# is run at.
seconds=${PACE_SECONDS:-$(by_gpu 10 3)}
shares=${PACE_SHARES:-$(by_gpu "10 25 50 75 90" 50)}
[ "$seconds" -ge 3 ] || fail "PACE_SECONDS=$seconds: expected 3 or more: NVML is asked in between"
# On a GPU a share is held to a point, by runs of ten seconds. How fast the software GPU is depends
# on what else the machine does at the moment, so there the table is made, and not judged.
over=$(by_gpu 1.5 100) under=$(by_gpu 2 100)

missed=

# watched COMMAND...: its output in $TMPDIR/out, and what NVML says meanwhile, but for a second at
# each end, in $utilised
watched() {
	(
		sleep 1
		"$BUILD/gpu/utilisation" $((seconds - 2)) >"$TMPDIR/utilised" 2>&1
	) &
	watcher=$!
	"$@" >"$TMPDIR/out" || fail "$*: exit status $?: $(cat "$TMPDIR/out")"
	wait $watcher || true
	utilised=$(tail -n 1 "$TMPDIR/utilised")
}

# rate UNITS FILE: units by elapsed_ms
rate() {
	awk -v n="$(field "$1" <"$2")" -v ms="$(field elapsed_ms <"$2")" 'BEGIN { printf "%.6f", n / ms }'
}

is_held() { # is_held SHARE HELD
	awk -v share="$1" -v held="$2" -v over="$over" -v under="$under" 'BEGIN { exit held > share + over || held < share - under }'
}

# line NAME SHARE RATE FULL_RATE UTILISED: prints it, and notes where the share held by work is too
# far from the one set
line() {
	held=$(awk -v rate="$3" -v full="$4" 'BEGIN { printf "%.2f", 100 * rate / full }')
	awk -v name="$1" -v share="$2" -v held="$held" -v utilised="$5" 'BEGIN {
		printf "  %-24s set %3d %%   held by work %6.2f %%   of share x unpaced %6.1f %%   NVML %s %%\n", name, share, held, 100 * held / share, utilised
	}'
	bar "share of $1" "$2 %" "$held %, NVML $5 %" is_held "$2" "$held" || missed="$missed
$1: the share of $2 % is not held"
}
all_are_held() {
	[ -z "$missed" ] || fail "$missed"
}

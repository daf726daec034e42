#!/bin/sh
# SPDX-License-Identifier: MIT
# stat, JSON and metrics report the loss of a guaranteed job beside a best-effort job. They have its
# launches in a second alone and now, and the loss with its error. They also have the part of the
# gaps that the best-effort job takes. The checks hold on a busy machine, too: the presence of each
# figure, figures that agree with each other, and bounds that the length of a kernel sets.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/priority.sh
. tests/e2e/priority.sh
# speeds JOB: alone, now, loss, error, takes; null where it is not told, nothing without peer
# records
speeds() {
	"$spillway" stat "$1" --json |
		sed -n 's/.*"launches_alone":\([^,]*\),"launches_now":\([^,]*\),"loss":\([^,]*\),"loss_error":\([^,]*\),"takes":\([^,}]*\).*/\1 \2 \3 \4 \5/p'
}
# ratio NAME JOB: of the metrics
ratio() {
	"$spillway" stat --format prometheus | sed -n "s/^spillway_$1_ratio{spillway_job=\"$2\",.*} //p"
}

# Alone nobody fills its gaps, and nothing is told.
starts prod guaranteed --kernel-us 500 --burst-ms 20 --pause-ms 30
has_record() { [ -n "$(speeds prod)" ]; }
until_true $patience has_record || fail "prod has no record: $("$spillway" stat prod --json)"
same 'alone' 'null null null null null' "$(speeds prod)"
same 'metrics, alone' '' "$(ratio loss prod)$(ratio loss_error prod)$(ratio takes prod)"

starts fill opportunistic --kernel-us 500
is_told() { case $(speeds prod) in *[0-9]*) ;; *) false ;; esac }
until_true $patience is_told || fail "no speed is told: $("$spillway" stat prod)"

# Each figure of one look. Kernels of 500 us, of which 20 ms are queued ahead at the start of a
# burst, are in a window of 32 ms and the looks around it no more than 5,000 launches a second. The
# loss is what the speeds say, in millionths.
plausible() {
	told=$(speeds prod)
	# shellcheck disable=SC2086
	set -- $told
	[ $# -eq 5 ] || fail "prod: $told"
	[ "$5" = null ] || fail "prod takes $5 of somebody's gaps"
	[ "$1" -gt 0 ] && [ "$1" -le 5000000 ] || fail "prod alone: $1 launches in 1,000 s"
	[ "$2" -ge 0 ] && [ "$2" -le 5000000 ] || fail "prod now: $2 launches in 1,000 s"
	[ "$4" -gt 0 ] && [ "$4" -le 10000000 ] || fail "prod: an error of $4 ppm"
	awk -v alone="$1" -v now="$2" -v loss="$3" 'BEGIN {
		off = loss - 1e6 * (1 - now / alone)
		most = 2 + 4e6 / alone
		exit !(off <= most && off >= -most) }' || fail "prod: a loss of $3 ppm by speeds of $1 and $2"
}
plausible

# The best-effort job tells what it takes while it asks for gaps, and loses nothing to anybody.
takes() {
	case $(speeds fill) in
	'null null null null '[0-9]*) ;;
	*) false ;;
	esac
}
until_true $patience takes || fail "the best-effort job: $(speeds fill)"
taken=$(speeds fill)
taken=${taken##* }
[ "$taken" -ge 15625 ] && [ "$taken" -le 1000000 ] || fail "the best-effort job takes $taken ppm"

# The table says the same, where nothing came in between.
agrees() {
	before=$(speeds prod)
	row=$("$spillway" stat prod | sed -n '/ALONE\/S/{n;p;}')
	[ "$before" = "$(speeds prod)" ] || return 1
	# shellcheck disable=SC2086
	set -- $before
	told=$(awk -v alone="$1" -v now="$2" -v loss="$3" -v error="$4" \
		'BEGIN { printf "0 %.1f %.1f %.1f%% %.1f%% -", alone / 1e3, now / 1e3, loss / 1e4, error / 1e4 }')
	# shellcheck disable=SC2086
	[ "$(echo $row)" = "$told" ]
}
until_true $patience agrees || fail "the table says '$row' of $before"
loss_agrees() {
	before=$(speeds prod)
	loss=$(ratio loss prod) error=$(ratio loss_error prod)
	[ "$before" = "$(speeds prod)" ] || return 1
	# shellcheck disable=SC2086
	set -- $before
	[ "$loss $error" = "$(awk -v loss="$3" -v error="$4" 'BEGIN { printf "%.6f %.6f", loss / 1e6, error / 1e6 }')" ]
}
until_true $patience loss_agrees || fail "metrics say $loss and $error of $before"
taken=$(ratio takes fill)
awk -v taken="$taken" 'BEGIN { exit !(taken > 0 && taken <= 1) }' || fail "metrics: the best-effort job takes '$taken'"
same 'metrics of who takes nothing' '' "$(ratio takes prod)$(ratio loss fill)"
plausible

# What is told is measured anew.
changes() { [ "$(speeds prod)" != "$before" ]; }
before=$(speeds prod)
until_true $patience changes || fail "what is told of prod stays: $before"
plausible
for job in prod fill; do kill -9 "$(pid_of $job)"; done

#!/bin/sh
# SPDX-License-Identifier: MIT
# Two inference engines share one GPU. Without shares and with equal weights each keeps a part of
# its speed on a GPU of its own: tokens, and the time between them (tests/bench/engine.c).
# ENGINE_SECONDS: how long a run is (8; 3 on the software GPU); ENGINE_REQUESTS: requests at once;
# ENGINE, ENGINE_NAME: another program of the same arguments and output, and its name in the bars.
set -eu
. tests/gpu/needs.sh
need_gpu
engine=${ENGINE:-$BUILD/bench/engine} name=${ENGINE_NAME:-engines}
seconds=${ENGINE_SECONDS:-$(by_gpu 8 3)}

two() { # two FILE COMMAND...: two engines at once, into FILE.a and FILE.b
	out=$TMPDIR/$1
	shift
	# shellcheck disable=SC2086 # several words
	for one in a b; do "$@" $engine "$requests" "$seconds" >"$out.$one" & done
	wait
}
weighted() { # weighted COMMAND...: as a job of its own, whose share is a weight
	SPILLWAY_SHARE_POLICY=weight "$BUILD/spillway" run --quiet --name "engine-$one" --share 50 "$@"
}
tokens() { # tokens FILE...: of all, in a second
	cat "$@" | sed -n 's/.* tokens=\([^ ]*\) elapsed_ms=\([^ ]*\).*/\1 \2/p' |
		awk '{ sum += 1000 * $1 / $2 } END { printf "%.2f", sum }'
}
is_kept() { # is_kept WITH WITHOUT: 98 %; the software GPU's speed depends on the rest of the machine
	awk -v with="$1" -v without="$2" -v least="$(by_gpu 98 0)" 'BEGIN { exit !(without > 0 && 100 * with / without >= least) }'
}

missed=
for requests in ${ENGINE_REQUESTS:-$(by_gpu "2 8 32" 8)}; do
	# shellcheck disable=SC2086 # several words
	$engine "$requests" "$seconds" >"$TMPDIR/alone"
	two none env
	two equal weighted
	without=$(tokens "$TMPDIR/none.a" "$TMPDIR/none.b") with=$(tokens "$TMPDIR/equal.a" "$TMPDIR/equal.b")
	awk -v alone="$(tokens "$TMPDIR/alone")" -v without="$without" -v with="$with" -v requests="$requests" \
		-v slow="$(field tbt_p99_us <"$TMPDIR/none.a")" -v slower="$(field tbt_p99_us <"$TMPDIR/equal.a")" 'BEGIN {
		printf "  %2d requests   kept without shares %5.1f %%, with equal weights %5.1f %%   between tokens, p99: %.1f ms, %.1f ms\n",
			requests, 50 * without / alone, 50 * with / alone, slow / 1000, slower / 1000
	}'
	bar "tokens of two $name at $requests requests" "98 % of those without shares" \
		"$(awk -v a="$with" -v b="$without" 'BEGIN { printf "%.1f %%", 100 * a / b }')" is_kept "$with" "$without" ||
		missed="$missed $requests"
done
[ -z "$missed" ] || fail "$name keep too little with equal weights, at requests:$missed"

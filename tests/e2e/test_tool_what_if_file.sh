#!/bin/sh
# SPDX-License-Identifier: MIT
# what-if of a record that is written here, so that each answer is known. A step is 5 kernels of 100
# ms and 5 of 300 ms. Each reads 10 MiB of its own, and 20 MiB cannot move. Over a link of 10 MiB in
# 150 ms the reads of the long kernels hide. Each of the short ones takes 50 ms more.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
spillway=$(cd "$BUILD" && pwd)/spillway
MIB=1048576

# survey TOKEN STEPS TO_DEVICE HELD_UP: STEPS is 2, or 0 for a program without steps; so many of the
# short kernels have their memory on the host, and take 50 ms longer
survey() {
	echo 'spillway-survey 2'
	echo 'name A GPU'
	echo "gpu 0 $((160 * MIB)) $1"
	echo 'limit 18446744073709551615'
	echo "held $((120 * MIB))"
	echo "link 0 $3"
	echo "how $2 0 0"
	echo 'pieces 10'
	for i in 0 1 2 3 4 5 6 7 8 9; do echo "$i $((i < $4)) $((10 * MIB)) $((10 * MIB))"; done
	echo 'kernels 20'
	at=0
	for i in 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9; do
		ns=$((i < $4 ? 150000000 : i < 5 ? 100000000 : 300000000))
		echo "$((1 + i / 5)) $ns $at 1 $i"
		at=$((at + ns))
	done
	echo end
}
record() { # record STEPS TO_DEVICE
	printf 'spillway-record 1\njob frozen\nseen 0 0\n'
	survey 7 "$1" "$2" 0
}
record 2 0 >"$TMPDIR/frozen.rec"
link=$((10 * MIB * 1000 / 150))B/s

# The smallest limit within a slowdown has the memory of the long kernels on the host, and of some
# of the short ones.
expect 0 "$spillway" what-if "$TMPDIR/frozen.rec" --link "$link" --memory 100%,70MiB,50MiB,20MiB,19MiB
says "$out" '^frozen, GPU 0 \(A GPU\): a step takes 2.00 s, 100 % of it in kernels, with 120 MiB of memory$'
says "$out" '^ *120 MiB +0 B +2.00 s +2.00 s to 2.00 s +1.00 +0 B$'
says "$out" '^ *70.0 MiB +50.0 MiB +2.00 s +2.00 s to .* 1.00 +50.0 MiB$'
says "$out" '^ *50.0 MiB +70.0 MiB +2.10 s +2.00 s to .* 1.05 +70.0 MiB$'
says "$out" '^ *20.0 MiB +100 MiB +2.25 s +2.00 s to .* 1.1[23] +100 MiB$'
says "$out" '^ *19.0 MiB .*below what cannot move$'
says "$out" '^within 10 %: --memory 41MiB \(1.0[78] times\)$'
says "$out" '^knee of the curve: 70.0 MiB \(1.00 times\); below it each byte costs more$'
for row in '6% 51 1.05' '11% 31 1.10' '0% 71 1.00' '3% 61 1.0[23]' '50% 21 1.1[23]'; do
	# shellcheck disable=SC2086 # its words
	set -- $row
	expect 0 "$spillway" what-if "$TMPDIR/frozen.rec" --link "$link" --slowdown "$1"
	says "$out" "^within [0-9.e-]+ %: --memory $2MiB \\($3 times\\)\$"
done

# Over a link so slow that each byte costs alike the curve is straight, and has no knee.
expect 0 "$spillway" what-if "$TMPDIR/frozen.rec" --link 1MB/s
says_not "$out" '^knee'

# The picture has both marks, at those limits.
expect 0 "$spillway" what-if "$TMPDIR/frozen.rec" --link "$link" --slowdown 6% --svg -
says "$out" '>knee: 70.0 MiB, 1.00 ×</text>$'
says "$out" '>within the slowdown: 50\.[0-9] MiB, 1.05 ×</text>$'

# Two jobs that always have work take twice as long, and as much longer as the host costs.
expect 0 "$spillway" what-if "$TMPDIR/frozen.rec" "$TMPDIR/frozen.rec" --link "$link"
says "$out" '^ *80.0 MiB +4.00 s +2.00 +80.0 MiB +4.00 s +2.00$'
says "$out" '^ *40.0 MiB +4.30 s +2.15 +120 MiB +4.00 s +2.00$'
# A job with a share of 30 % leaves the rest to the other.
expect 0 "$spillway" what-if "$TMPDIR/frozen.rec" "$TMPDIR/frozen.rec" --link "$link" --share 30,100
says "$out" '^ *80.0 MiB +6.67 s +3.33 +80.0 MiB +2.86 s +1.43$'

# It is said how the link is known: modelled, by moves, or as given.
expect 0 "$spillway" what-if "$TMPDIR/frozen.rec"
says "$out" '^link to host memory: 16.0 GiB/s, modelled link: nothing was on the host while it was measured$'
record 2 $((64 * MIB)) >"$TMPDIR/moved.rec"
expect 0 "$spillway" what-if "$TMPDIR/moved.rec" --memory 20MiB
says "$out" '^link to host memory: 64.0 MiB/s, as fast as memory moved$'
# Moves tell little of the link: with half of it each kernel takes 312 ms for its 10 MiB.
says "$out" '^ *20.0 MiB +100 MiB +2.28 s +2.00 s to 3.1[23] s '
expect 0 "$spillway" what-if "$TMPDIR/moved.rec" --link "$link"
says "$out" '^link to host memory: 66.7 MiB/s, as given$'

# Without steps it is the busy time of each second of work.
record 0 0 >"$TMPDIR/server.rec"
expect 0 "$spillway" what-if "$TMPDIR/server.rec" --link "$link" --memory 100%,20MiB
says "$out" '^frozen, GPU 0 \(A GPU\): no steps; kernels run for 1000 ms of a second, with 120 MiB of memory$'
says "$out" '^ *LIMIT +ON HOST +BUSY PER SECOND +RANGE +TIMES +READ FROM HOST$'
says "$out" '^ *20.0 MiB +100 MiB +1125 ms +1000 ms to [0-9]+ ms +1.1[23] '

# A living job whose steps take longer than predicted for its limit has a cost that is not modelled.
for step in 2100 2600; do
	start_job slow$step -c steps=3 -c step_ns=${step}000000
	token=$("$spillway" stat slow$step --json | sed 's/.*"token":"\([0-9a-f]*\)".*/\1/')
	survey "$(printf %u "0x$token")" 2 0 0 >"$SPILLWAY_STATE_DIR/slow$step.survey-0"
	expect 0 "$spillway" what-if slow$step --link "$link"
	kill "$pid"
	wait "$pid"
	case $step in
	2100) says_not "$out" 'measured now' ;;
	2600) says "$out" '^measured now: a step takes 2.60 s, predicted 2.00 s: this program has a cost ' ;;
	esac
done

# The end of a run says the price and the limit that avoids it, as the survey of that run has them:
# 4 of 5 short kernels take 50 ms more of 2 s.
priced() { # priced HELD_UP
	survey TOKEN 2 0 "$1" >"$TMPDIR/survey"
	# shellcheck disable=SC2016 # for the inner shell
	expect 0 "$spillway" run --softgpu --name priced sh -c '"$1" --hidden 16 --epochs 1 --quiet >"$0/said" || exit
		token=$("$2" stat priced --json | sed "s/.*\"token\":\"\([0-9a-f]*\)\".*/\1/")
		sed "s/TOKEN/$(printf %u "0x$token")/" "$0/survey" >"$SPILLWAY_STATE_DIR/priced.survey-0"' \
		"$TMPDIR" "$BUILD/clients/train_mlp" "$spillway"
}
priced 4
says "$err" '^spillway: priced: memory on the host made a step take 1\.1 times as long; --memory 71MiB is estimated to avoid it$'
priced 0
says_not "$err" 'times as long'
finish

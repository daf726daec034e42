#!/bin/sh
# train_mlp on the software GPU: reaches 95 % accuracy, and the same seed gives the same weights.
set -eu
: "${BUILD:=build}"
LD_LIBRARY_PATH=$BUILD/softgpu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

field() { # field NAME: its value in the last line of the run on stdin
	sed -n "s/^train_mlp: .* $1=\([^ ]*\).*/\1/p"
}

"$BUILD/clients/train_mlp" >"$TMPDIR/first"
cat "$TMPDIR/first"
accuracy=$(field accuracy <"$TMPDIR/first")
if ! awk "BEGIN { exit !($accuracy >= 95) }"; then
	echo "accuracy is $accuracy %, expected 95 or more"
	exit 1
fi

"$BUILD/clients/train_mlp" --quiet >"$TMPDIR/second"
cat "$TMPDIR/second"
first=$(field checksum <"$TMPDIR/first")
second=$(field checksum <"$TMPDIR/second")
if [ "$first" != "$second" ]; then
	echo "checksums of the same seed differ: $first, $second"
	exit 1
fi

other=$("$BUILD/clients/train_mlp" --quiet --seed 2 --epochs 1 | field checksum)
if [ -z "$other" ] || [ "$other" = "$first" ]; then
	echo "another seed gave checksum '$other'; expected one that differs from $first"
	exit 1
fi

#!/bin/sh
# SPDX-License-Identifier: MIT
# train_mlp on the software GPU: reaches 95 % accuracy, and the same seed gives the same weights.
set -eu
: "${BUILD:=build}"
LD_LIBRARY_PATH=$BUILD/softgpu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

field() { # field NAME: its value in the last line of the run on stdin
	sed -n "s/^train_mlp: .* $1=\([^ ]*\).*/\1/p"
}

"$BUILD/clients/train_mlp" --epochs 12 >"$TMPDIR/log"
cat "$TMPDIR/log"
accuracy=$(field accuracy <"$TMPDIR/log")
if ! awk "BEGIN { exit !($accuracy >= 95) }"; then
	echo "accuracy is $accuracy %, expected 95 or more"
	exit 1
fi

checksum() { # checksum SEED
	"$BUILD/clients/train_mlp" --quiet --epochs 2 --seed "$1" | field checksum
}
first=$(checksum 1)
again=$(checksum 1)
other=$(checksum 2)
if [ -z "$first" ] || [ "$first" != "$again" ]; then
	echo "checksums of the same seed: '$first' and '$again', expected the same"
	exit 1
fi
if [ -z "$other" ] || [ "$first" = "$other" ]; then
	echo "checksums of two seeds: '$first' and '$other', expected different ones"
	exit 1
fi

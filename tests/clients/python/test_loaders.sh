#!/bin/sh
# SPDX-License-Identifier: MIT
# tinygrad trains on batches that loaders make, forked, spawned and by a fork server. It trains
# alone and in a job with a limit below the training's memory. The weights are the same to the bit.
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh

alone=$(client $here/train_loaders.py 2>&1) || fail "alone: $alone"
limited=$(limited_client loaders 16MiB 80 $here/train_loaders.py) || fail "limited: $limited"
echo "$limited"
expected=$(field checksum "$alone")
for way in fork spawn forkserver; do
	same "$way, alone" "$expected" "$(field checksum "$(printf '%s\n' "$alone" | grep "^$way ")")"
	same "$way, limited" "$expected" "$(field checksum "$(printf '%s\n' "$limited" | grep "^$way ")")"
done
at_least "spilled bytes" 1 "$(counter loaders spilled_bytes)"
same "device bytes held when it is over" 0 "$(device_bytes)"

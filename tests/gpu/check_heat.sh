#!/bin/sh
# SPDX-License-Identifier: MIT
# Half of a working set is on the device. A step takes less than half the time where Spillway sees
# the memory of the kernels. The comparison is memory that lies as it was allocated.
set -eu
. tests/gpu/needs.sh
need_gpu
mib=$(by_gpu 4096 64)
[ "$GPU" = real ] || export SOFTGPU_HOST_BANDWIDTH=100M

# step PLACED: nanoseconds
step() {
	limit_file "$TMPDIR/heat.ini" 100%
	SPILLWAY_CONFIG=$TMPDIR/heat.ini SPILLWAY_JOB=heat-$1 "$BUILD/spillway" run --quiet --name "heat-$1" \
		--config "$TMPDIR/heat.ini" "$BUILD/bench/steps" "$1" 50 "$mib" >"$TMPDIR/out" 2>&1 || fail "$1: $(cat "$TMPDIR/out")"
	sed -n 's/^step_50% \([0-9]*\).*/\1/p' "$TMPDIR/out"
}

heat=$(step heat) || fail "$heat"
order=$(step order) || fail "$order"
for placed in heat order; do
	echo "$placed: $(($(counter heat-$placed demotions) + $(counter heat-$placed promotions))) chunks moved," \
		"longest copy window $(counter heat-$placed move_longest_ns) ns of $(counter heat-$placed move_ns) ns in all"
done
echo "a step takes $heat ns placed by heat, $order ns as allocated"
# How long a step takes on the software GPU depends on what else the machine does, so there it is
# not judged.
most=$(by_gpu $((order / 2)) $((order * 100)))
bar "a step, half of the working set on the device" "below $most ns" "$heat ns" [ "$heat" -lt "$most" ] ||
	fail "placing by heat gains too little"

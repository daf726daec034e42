#!/bin/sh
# SPDX-License-Identifier: MIT
# A lowered limit makes room on the device, by the driver's answer to another process. A raised
# limit takes the room again. Every byte is still there at the end.
set -eu
. tests/gpu/needs.sh
need_gpu
context=$(context_bytes)
mib=$(by_gpu 64 8)
blocks=32
bytes=$((blocks * mib << 20))
slack=$((bytes / 8))
ini=$TMPDIR/shrink.ini

limit_file "$ini" $((context + 2 * bytes))
"$BUILD/spillway" run --quiet --name shrink --config "$ini" "$BUILD/tests/e2e/allocate" --mib "$mib" --count $blocks \
	--hold-ms 30000 --ready "$TMPDIR/ready" >"$TMPDIR/out" 2>&1 &
program=$!
trap 'kill $program 2>/dev/null || true' EXIT
until_true 60 test -e "$TMPDIR/ready" || fail "it did not start: $(cat "$TMPDIR/out")"
before=$("$BUILD/gpu/device_free")
for percent in 50 0 25; do
	limit=$((context + bytes * percent / 100))
	limit_file "$ini" $limit
	until_true 20 counter_is shrink device_used -le $limit ||
		fail "$(counter shrink device_used) bytes under a limit of $limit: $("$BUILD/spillway" stat shrink)"
	gained=$(($("$BUILD/gpu/device_free") - before))
	echo "$percent %: $gained bytes of $bytes are free"
	least=$((bytes * (100 - percent) / 100 - slack))
	bar "given back at a limit of $percent %" "$least bytes at least" "$gained bytes" [ $gained -ge $least ] ||
		fail "only $gained bytes became free at $percent %"
done
limit_file "$ini" $((context + 2 * bytes))
until_true 20 counter_is shrink host_used -eq 0 || fail "not back: $("$BUILD/spillway" stat shrink)"
gained=$(($("$BUILD/gpu/device_free") - before))
[ $gained -le $slack ] || fail "$gained bytes are still free"
wait $program || fail "a byte was lost: $(cat "$TMPDIR/out")"

#!/bin/sh
# SPDX-License-Identifier: MIT
# Faults that the GPU's kernel driver wrote down (Xid lines). There are none since SINCE (seconds
# after the machine's start; 0).
set -eu
. tests/gpu/needs.sh
dmesg >"$TMPDIR/log" 2>"$TMPDIR/why" || skip "the kernel's log is not to be read here: $(tail -n 1 "$TMPDIR/why")"
awk -v since="${SINCE:-0}" '/NVRM.*Xid/ { at = $0; sub(/^\[ */, "", at); if (at + 0 >= since + 0) print }' "$TMPDIR/log" >"$RESULTS/xid.txt"
bar "Xid lines in the kernel's log" 0 "$(wc -l <"$RESULTS/xid.txt")" [ ! -s "$RESULTS/xid.txt" ] || {
	cat "$RESULTS/xid.txt"
	fail "the driver wrote down faults"
}

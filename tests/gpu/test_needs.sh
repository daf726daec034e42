#!/bin/sh
# SPDX-License-Identifier: MIT
# The rules by which the scripts of this folder judge. Memory that is charged for good does not
# count against a limit, all other memory does. A script with a missing requirement is skipped.
set -eu
. tests/gpu/needs.sh
here=tests/gpu

# judged PEAK SPILLED ALONE LIMITED: of a limit of 100 bytes and 50 for good
judged() (
	counter() { if [ "$2" = device_peak ]; then echo "$peak"; else echo "$spilled"; fi; }
	peak=$1 spilled=$2
	same_within_limit job 100 "$3" "$4" 50 >"$TMPDIR/said"
)
judged 150 1 a a || fail "what is charged for good counts: $(cat "$TMPDIR/said")"
if judged 151 1 a a; then fail "a byte too many is not seen"; fi
grep -q '^job: device memory held	100 and 50 for good	151	not met$' "$RESULTS/bars.tsv" || fail "$(cat "$RESULTS/bars.tsv")"
if judged "" 1 a a; then fail "a peak that nobody knows is taken"; fi
if judged 150 0 a a; then fail "a limit that was not met is taken"; fi
if judged 150 1 a b; then fail "other results are taken"; fi
if judged 150 1 "" ""; then fail "no results are taken"; fi

# Contexts that take more than the limit, as those of real GPUs do, are no fault of a limit that was
# kept.
GPU=soft SOFTGPU_CONTEXT_MEMORY=48M $here/check_train.sh >"$TMPDIR/train" 2>&1 || fail "$(cat "$TMPDIR/train")"
grep 'charged for good' "$TMPDIR/train"

# Nothing is built, and what is not here is said.
mkdir "$TMPDIR/bin"
for tool in sh cat tail sed awk grep env mkdir dirname; do ln -s "$(command -v $tool)" "$TMPDIR/bin/"; done
for script in check_pytorch check_pytorch_graphs check_pace_pytorch; do
	status=0
	env GPU=real BUILD="$BUILD" LD_LIBRARY_PATH="$BUILD/softgpu" PATH="$TMPDIR/bin" "$here/$script.sh" >"$TMPDIR/said" 2>&1 || status=$?
	[ $status = 77 ] || fail "$script without Python: $status: $(cat "$TMPDIR/said")"
	grep -q 'no Python here' "$TMPDIR/said" || fail "$script: $(cat "$TMPDIR/said")"
done

# The version of the kernel driver, of either kind.
printf 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (dvs-builder)  Wed Aug 27\nGCC version:  gcc version 13.3.0\n' >"$TMPDIR/open"
printf 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc version 12.2.0\n' >"$TMPDIR/other"
for each in open:580.82.07 other:535.104.05 none:; do
	[ "$(tests/conformance/driver_version "$TMPDIR/${each%:*}")" = "${each#*:}" ] || fail "${each%:*}: $(tests/conformance/driver_version "$TMPDIR/${each%:*}")"
done

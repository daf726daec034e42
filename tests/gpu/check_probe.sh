#!/bin/sh
# SPDX-License-Identifier: MIT
# Puts the probe's questions to the real driver. The answers are left as probe.tsv in $RESULTS.
set -eu
. tests/gpu/needs.sh
need_gpu
status=0
"$BUILD/gpu/probe" --tsv >"$RESULTS/probe.tsv" || status=$?
# Processes that died are answers, too; none at all are not.
[ -s "$RESULTS/probe.tsv" ] || fail "the probe ended with $status and said nothing"
awk -F '\t' '{ print $1 ": " $2 ($3 == "" ? "" : " (" $3 ")") }' "$RESULTS/probe.tsv"

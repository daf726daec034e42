#!/bin/sh
# SPDX-License-Identifier: MIT
# Which addresses cuGetProcAddress hands out, by name, version and kind of default stream: as
# addresses.tsv in $RESULTS.
set -eu
. tests/gpu/needs.sh
need_gpu
requests=$BUILD/gpu/address_requests.tsv
"$BUILD/tests/e2e/proc_addresses" "$requests" >"$RESULTS/addresses.tsv" || fail "exit status $?"
asked=$(wc -l <"$requests") answered=$(grep -c ' driver ' "$RESULTS/addresses.tsv" || true)
echo "$answered of $asked requests were answered"
[ "$(wc -l <"$RESULTS/addresses.tsv")" -eq "$asked" ] || fail "some have no answer"
[ "$answered" -gt 0 ] || fail "no address was handed out"

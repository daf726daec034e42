#!/bin/sh
# SPDX-License-Identifier: MIT
# While a program's limit moves all the time, 400 chunks and more move while work is queued (in the
# long form a thousand). The program ends with the same bits as without Spillway. It has one stream,
# eight threads or four streams, and copies and fills in flight.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/moving.sh
. tests/e2e/moving.sh

if [ "${FORM:-}" = long ]; then chunks=1000; else chunks=400; fi

of_mode one $((chunks / 10))
of_mode threads $((chunks / 4))
# What is left of them.
of_mode four $((chunks - total_queued))
[ $total_moves -ge $chunks ] || fail "only $total_moves chunks were moved"
[ $total_queued -ge $chunks ] || fail "only $total_queued chunks were moved while work was queued"

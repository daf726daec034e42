#!/bin/sh
# While a program's limit moves all the time, a thousand chunks and more move while work is queued,
# and it ends with the same bits as without Spillway: one stream, eight threads, four streams;
# copies and fills in flight.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/moving.sh
. tests/e2e/moving.sh

of_mode one 100
of_mode threads 250
# What is left of a thousand.
of_mode four $((1000 - total_queued))
[ $total_moves -ge 1000 ] || fail "only $total_moves chunks were moved"
[ $total_queued -ge 1000 ] || fail "only $total_queued chunks were moved while work was queued"

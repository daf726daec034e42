#!/bin/sh
# SPDX-License-Identifier: MIT
# Puts all questions to the driver, or those of TOPICS. The answers are left as answers.tsv in
# $RESULTS, and the questions as questions.tsv.
set -eu
. tests/gpu/needs.sh
need_gpu
ask=$BUILD/gpu/questions/ask
# shellcheck disable=SC2086 # several words, or none
"$ask" --list ${TOPICS:-} >"$RESULTS/questions.tsv"
status=0
# shellcheck disable=SC2046,SC2086 # an option or none, and the same
"$ask" $(by_gpu "" --short) --tsv ${TOPICS:-} >"$RESULTS/answers.tsv" || status=$?
# Processes that died are answers, too; none at all are not.
[ -s "$RESULTS/answers.tsv" ] || fail "the questions ended with $status, and without an answer"
awk -F '\t' '{ print $1 ": " $2 ($3 == "" ? "" : " (" $3 ")") }' "$RESULTS/answers.tsv"

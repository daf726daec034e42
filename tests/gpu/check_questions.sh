#!/bin/sh
# Puts all questions to the driver. The answers are left as answers.tsv in $RESULTS, and what is asked as questions.tsv.
set -eu
. tests/gpu/needs.sh
need_gpu
ask=$BUILD/gpu/questions/ask
"$ask" --list >"$RESULTS/questions.tsv"
status=0
# shellcheck disable=SC2046 # an option or none
"$ask" $(by_gpu "" --short) --tsv >"$RESULTS/answers.tsv" || status=$?
# Processes that died are answers, too; none at all are not.
[ -s "$RESULTS/answers.tsv" ] || fail "the questions ended with $status, and without an answer"
awk -F '\t' '{ print $1 ": " $2 ($3 == "" ? "" : " (" $3 ")") }' "$RESULTS/answers.tsv"

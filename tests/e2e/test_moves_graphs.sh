#!/bin/sh
# SPDX-License-Identifier: MIT
# A program's limit moves all the time. Graphs that were captured before a move are replayed after
# it, and captures stay valid. The demo's training ends with the same weights.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/moving.sh
. tests/e2e/moving.sh

if [ "${FORM:-}" = long ]; then wanted=50; else wanted=20; fi

of_mode graphs $wanted
of_mode captures $wanted

# The demo's training.
train=$build/clients/train_mlp
epochs=20
alone=$(on_softgpu "$train" --epochs $epochs --quiet)
working_set=$(field working_set "$alone")
limit_file "$scratch/train.ini" "$working_set"
disturb "$scratch/train.ini" "$working_set"
got=$("$spillway" run --softgpu --quiet --name train --config "$scratch/train.ini" "$train" --epochs $epochs --quiet) ||
	fail "the training: exit status $?"
calm
book train
same "weights" "$(field checksum "$alone")" "$(field checksum "$got")"
[ $moves -gt 0 ] || fail "training: nothing moved"

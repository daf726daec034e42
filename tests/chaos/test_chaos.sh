#!/bin/sh
# SPDX-License-Identifier: MIT
# Random programs, ten seconds of them, from a seed that is printed; see README.md. The same seed
# is the same operations.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
worker=$build/tests/chaos/chaos_worker

# plan SEED PROCESS LIFE: the operations of that process
plan() {
	on_softgpu "$worker" --plan "$@" 500 || fail "no plan of $*"
}

first=$(plan 1 3 2)
same "operations of a seed" "$first" "$(plan 1 3 2)"
same "operations in a plan" 500 "$(echo "$first" | grep -c .)"
for other in "2 3 2" "1 4 2" "1 3 3"; do
	# shellcheck disable=SC2086 # numbers
	[ "$(plan $other)" != "$first" ] || fail "$other has the operations of 1 3 2"
done
unset SOFTGPU_CONTEXT_MEMORY
built_in ipc || export GIVES_MEMORY=no
"$build/tests/chaos/chaos" ${CHAOS_SEED:+--seed "$CHAOS_SEED"} --seconds "${CHAOS_SECONDS:-10}"

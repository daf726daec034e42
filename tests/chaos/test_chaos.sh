#!/bin/sh
# Random programs, twenty seconds of them, from a seed that is printed; see README.md. The same seed is the same operations.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
worker=$build/tests/chaos/chaos_worker

same "operations of a seed" "$("$worker" --plan 1 3 2 500)" "$("$worker" --plan 1 3 2 500)"
for other in "2 3 2" "1 4 2" "1 3 3"; do
	# shellcheck disable=SC2086 # numbers
	[ "$("$worker" --plan $other 500)" != "$("$worker" --plan 1 3 2 500)" ] || fail "$other has the operations of 1 3 2"
done
unset SOFTGPU_CONTEXT_MEMORY
"$build/tests/chaos/chaos" ${CHAOS_SEED:+--seed "$CHAOS_SEED"} --seconds "${CHAOS_SECONDS:-20}"

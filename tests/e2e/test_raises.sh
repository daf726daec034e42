#!/bin/sh
# SPDX-License-Identifier: MIT
# A limit rises and falls under load. The memory that the software GPU has given is never above a
# limit that is reported as held. RAISES=N: so many changes, of which half are raises;
# RAISES_SEED=N.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
runners=
join=
SOFTGPU_CONTEXT_MEMORY=0
export SOFTGPU_CONTEXT_MEMORY

# shellcheck disable=SC2086 # nothing, or a word
load() { # load MIB COUNT API: a process of the job that takes so many blocks, and gives them back, again and again
	"$spillway" run --softgpu --quiet --name raised --memory 96MiB $join "$build/tests/e2e/allocate" --mib "$1" --count "$2" --api "$3" \
		--rounds 1000000 --ready "$scratch/$1.ready" >/dev/null 2>"$scratch/$1.errors" &
	runners="$runners $!" join=--join
	until_true $patience [ -e "$scratch/$1.ready" ] || fail "load: $(cat "$scratch/$1.errors")"
}
load 1 20 alloc
load 7 6 alloc
load 4 8 create
load 3 9 async
out=$("$build/tests/e2e/raises" raised "${RAISES:-40}" "${RAISES_SEED:-1}") || fail "$out"
has "nothing beyond a limit" "$out" "over=0 "
echo "$out"
# shellcheck disable=SC2086 # a list
for runner in $runners; do kill -0 "$runner" || fail "a process ended: $(cat "$scratch"/*.errors)"; done
# Waited for, so that the weight of this test has their time.
# shellcheck disable=SC2086 # a list
kill $runners
wait || true

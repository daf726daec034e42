#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory that a program binds to multicast objects and logical endpoints (CUDA 13.1 and 13.3) is
# reached by other GPUs and machines. It stays on its GPU, and the driver gets handles of its own
# alone. The driver is an imitation (later_driver.c).
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SOFTGPU_QUIET=1 LD_LIBRARY_PATH="$build/tests/e2e/later"

: >"$scratch/alone.end"
"$build/tests/e2e/binds" "$scratch/alone" >"$scratch/driver"
same "blocks" 8 "$(grep -c '^block .*: right$' "$scratch/driver")"
same "bound" 4 "$(grep -c ': 0$' "$scratch/driver")"
same "not the driver's" 1 "$(grep -c '^no handle: [1-9]' "$scratch/driver")"

"$spillway" run --quiet --name binds --memory 64MiB "$build/tests/e2e/binds" "$scratch/ready" >"$scratch/out" 2>"$scratch/err" &
program=$!
until_true $patience [ -e "$scratch/ready" ] || fail "not ready: $(cat "$scratch/out" "$scratch/err")"
same "on the GPU" $((32 * mib)) "$(device_bytes)"
"$spillway" set --timeout $patience binds --memory 4MiB >"$scratch/set" 2>&1 || :
until_true $patience device_within $((16 * mib)) || fail "what is not bound stays: $("$spillway" stat binds)"
same "what is bound stays" $((16 * mib)) "$(device_bytes)"
same "why" pinned "$(counter binds held_reason)"
: >"$scratch/ready.end"
wait $program || fail "$(cat "$scratch/out" "$scratch/err")"
diff "$scratch/driver" "$scratch/out" || fail "answers differ (< driver, > spillway run)"

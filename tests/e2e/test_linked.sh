#!/bin/sh
# SPDX-License-Identifier: MIT
# A program that is linked to every function of the driver starts under the shim and gets the
# driver's answers. It binds the functions when they are called, or all at the start.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

export SOFTGPU_QUIET=1
for linked in linked linked-now; do
	on_softgpu "$build/tests/e2e/$linked" >"$scratch/driver"
	[ "$(wc -l <"$scratch/driver")" -ge 51 ] || fail "$linked: only $(wc -l <"$scratch/driver") functions are newer than 13.0"
	under_shim "$build/tests/e2e/$linked" >"$scratch/shim"
	diff "$scratch/driver" "$scratch/shim" || fail "$linked: answers differ (< driver, > shim)"
	"$spillway" run --softgpu --quiet --memory 16MiB "$build/tests/e2e/$linked" >"$scratch/limited"
	diff "$scratch/driver" "$scratch/limited" || fail "$linked: answers differ under a limit (< driver, > shim)"
done

#!/bin/sh
# SPDX-License-Identifier: MIT
# A program's libraries have taken all memory for thread-local variables that the loader keeps
# beside that of the start. The preloaded shim has its own since the start, and works. Opened later
# it cannot be loaded, which the loader says, and the program goes on.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
static_tls=$build/tests/e2e/static_tls
mkdir "$scratch/libraries"
i=0
while [ $i -lt 200 ]; do
	cp "$build/tests/e2e/wants_tls.so" "$scratch/libraries/$i.so"
	i=$((i + 1))
done
# Where libraries of a sanitizer or another C library leave more room than that there is nothing to
# see.
LD_LIBRARY_PATH=$softgpu "$static_tls" "$scratch/libraries" libcuda.so.1 >"$scratch/alone" 2>&1 || {
	tail -n 1 "$scratch/alone"
	exit 77
}
same "alone" "1: opened; cuInit 0" "$(cat "$scratch/alone")"
same "preloaded" "1: opened; cuInit 0" \
	"$(SPILLWAY_JOB=tls SPILLWAY_MEMORY=16MiB under_shim "$static_tls" "$scratch/libraries" libcuda.so.1 2>&1)"
"$spillway" stat tls >/dev/null || fail "the job is not known"
out=$(LD_LIBRARY_PATH=$softgpu "$static_tls" "$scratch/libraries" "$build/lib/libspillway.so" libcuda.so.1 2>&1)
has "opened later" "$out" "cannot allocate memory in static TLS block; cuInit -1"
has "opened later, the driver" "$out" "2: opened; cuInit 0"

#!/bin/sh
# Every address libcudart 11.8, 12.4 or 13.0 asks for: our hook of exactly the symbol the driver answers
# with, or the driver's own address where nothing is hooked. On the software GPU; test_real_driver.sh asks NVIDIA's.
set -eu
# shellcheck source=tests/e2e/proc_address.sh
. tests/e2e/proc_address.sh

on_softgpu "$build/tests/e2e/proc_addresses" $requests >"$scratch/driver"
under_shim "$build/tests/e2e/proc_addresses" $requests >"$scratch/shim"
compare "software GPU" "$scratch/driver" "$scratch/shim"

# The software GPU itself answers as driver 555 did, where that one had an answer: it is a 12.5 driver.
awk -F'\t' '!/^#/ { print ($1 == "" ? "\047\047" : $1), $2, $3, $5 }' $requests >"$scratch/recorded"
awk 'FILENAME == ARGV[1] { if ($4 ~ /^cu/ && $2 <= 12050) want[$1, $2, $3] = $4; next }
	($1, $2, $3) in want { n++; if ($7 != want[$1, $2, $3]) { print $0 ", driver 555: " want[$1, $2, $3]; bad = 1 } }
	END { exit bad || n < 350 }' "$scratch/recorded" "$scratch/driver" || fail "the software GPU differs from driver 555"

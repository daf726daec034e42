#!/bin/sh
# SPDX-License-Identifier: MIT
# Every address libcudart 11.8, 12.4 or 13.0 asks for: our hook of exactly the symbol the driver
# answers with, or the driver's own address where nothing is hooked. On the software GPU;
# test_real_driver.sh asks NVIDIA's.
set -eu
# shellcheck source=tests/e2e/proc_address.sh
. tests/e2e/proc_address.sh

on_softgpu "$build/tests/e2e/proc_addresses" $requests >"$scratch/driver"
under_shim "$build/tests/e2e/proc_addresses" $requests >"$scratch/shim"
compare "software GPU" "$scratch/driver" "$scratch/shim"

# The software GPU itself answers as driver 555 did, where that one had an answer: it is a 12.5
# driver.
awk -F'\t' '!/^#/ { print ($1 == "" ? "\047\047" : $1), $2, $3, $5 }' $requests >"$scratch/recorded"
awk 'FILENAME == ARGV[1] { if ($4 ~ /^cu/ && $2 <= 12050) want[$1, $2, $3] = $4; next }
	($1, $2, $3) in want { n++; if ($7 != want[$1, $2, $3]) { print $0 ", driver 555: " want[$1, $2, $3]; bad = 1 } }
	END { exit bad || n < 350 }' "$scratch/recorded" "$scratch/driver" || fail "the software GPU differs from driver 555"

# Every name at versions between which answers change, by both forms of the call, on drivers old and
# new: they differ in what they answer with, and so do we. Flags that no driver takes, and names it
# has not.
addresses=$build/tests/e2e/proc_addresses
sed -n 's/^FUNCTION(\([A-Za-z0-9_]*\),.*/\1/p' shim/entry_points.h | every_request 2000 3020 7000 10010 11030 12000 13000 13050 >"$scratch/requests"
for flags in 3 4 7 -1; do
	awk -v flags=$flags '!/^#/ { print $1 "\t" $2 "\t" flags }' FS='\t' $requests
	printf 'cuNoSuchThing\t12000\t%d\ncuMemAlloc_v2\t12000\t%d\ncuInit\t-1\t%d\n' $flags $flags $flags
done >>"$scratch/requests"
both_forms() { # both_forms NAME
	for form in "" --first; do
		# shellcheck disable=SC2086 # none or one
		on_softgpu "$addresses" $form "$scratch/requests" >"$scratch/driver"
		# shellcheck disable=SC2086
		under_shim "$addresses" $form "$scratch/requests" >"$scratch/shim"
		compare "$1 $form" "$scratch/driver" "$scratch/shim"
	done
	same "$1: NULL parameters" "$(on_softgpu "$addresses" --nulls)" "$(under_shim "$addresses" --nulls |
		sed 's/ shim / driver /')"
	LC_ALL=C sort -u "$scratch/driver" >"$scratch/answers"
	cksum <"$scratch/answers"
}
for version in 11040 11080 12000 12020 12050 13000 13050; do
	SOFTGPU_DRIVER_VERSION=$version
	export SOFTGPU_DRIVER_VERSION
	both_forms "driver $version" >>"$scratch/sums"
done
unset SOFTGPU_DRIVER_VERSION
SOFTGPU_HIDE=cuMemAlloc,cuMemFree,cuCtxCreate,cuLaunchKernel,cuGetProcAddress both_forms "hidden names" >>"$scratch/sums"
same "drivers that differ" 8 "$(LC_ALL=C sort -u "$scratch/sums" | wc -l)"

# Disabled, each address is the driver's.
SPILLWAY_DISABLE=1 under_shim "$addresses" $requests >"$scratch/shim"
on_softgpu "$addresses" $requests | diff - "$scratch/shim" >&2 || fail "disabled: see above"

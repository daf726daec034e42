#!/bin/sh
# Every address libcudart 11.8, 12.4 or 13.0 asks for: our hook of exactly the symbol the driver answers
# with, or the driver's own address where nothing is hooked.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
table=tests/e2e/data/cudart_requests.tsv

# Offset of each hook in the shim, from its own symbol table.
nm "$build/lib/libspillway.so" | sed -n 's/^0*\([0-9a-f]*\) t hook_\([A-Za-z0-9_]*\)$/\1 \2/p' >"$scratch/offsets"
awk '{ print $2 }' "$scratch/offsets" | LC_ALL=C sort -u >"$scratch/hooked"
[ "$(wc -l <"$scratch/hooked")" -gt 200 ] || fail "only $(wc -l <"$scratch/hooked") hooks were found in the shim"

compare() { # compare NAME < answers under the shim; the driver's own answers are in $scratch/driver
	awk -v where="$1" '
		FILENAME == ARGV[1] { hooked[$1] = 1; next }
		FILENAME == ARGV[2] { hook_at[$1] = $2; next }
		FILENAME == ARGV[3] { expected[$1, $2, $3] = $7; result[$1, $2, $3] = $4 " " $5; next }
		{
			key = $1 SUBSEP $2 SUBSEP $3
			want = expected[key]
			got = $6 == "shim" ? hook_at[$7] : $7
			n++
			if (result[key] != $4 " " $5) { print where ": " $0 ": driver answers " result[key]; bad = 1 }
			else if (got != want) { print where ": " $0 ": got " got ", the driver gives " want; bad = 1 }
			else if ((want in hooked) != ($6 == "shim")) { print where ": " $0 ": hooked but not handed out, or reverse"; bad = 1 }
		}
		END { if (n < 400) { print where ": only " n " requests"; bad = 1 } exit bad }
	' "$scratch/hooked" "$scratch/offsets" "$scratch/driver" -
}

on_softgpu "$build/tests/e2e/proc_addresses" $table >"$scratch/driver"
under_shim "$build/tests/e2e/proc_addresses" $table >"$scratch/shim"
compare "software GPU" <"$scratch/shim" || fail "see above"

# The software GPU itself answers as driver 555 did, where that one had an answer: it is a 12.5 driver.
awk -F'\t' '!/^#/ { print ($1 == "" ? "\047\047" : $1), $2, $3, $5 }' $table >"$scratch/recorded"
awk 'FILENAME == ARGV[1] { if ($4 ~ /^cu/ && $2 <= 12050) want[$1, $2, $3] = $4; next }
	($1, $2, $3) in want { n++; if ($7 != want[$1, $2, $3]) { print $0 ", driver 555: " want[$1, $2, $3]; bad = 1 } }
	END { exit bad || n < 350 }' "$scratch/recorded" "$scratch/driver" || fail "the software GPU differs from driver 555"

# The same against a real driver library, where the machine has one (no GPU is needed to ask it).
real=$(ldconfig -p 2>/dev/null | sed -n 's/.*libcuda\.so\.1 .*=> //p' | head -n 1)
real=${SPILLWAY_TEST_DRIVER:-$real}
if [ -n "$real" ]; then
	LD_LIBRARY_PATH=$(dirname "$real") "$build/tests/e2e/proc_addresses" $table >"$scratch/driver"
	SPILLWAY_DRIVER=$real LD_PRELOAD=$shim "$build/tests/e2e/proc_addresses" $table >"$scratch/shim"
	compare "$real" <"$scratch/shim" || fail "see above"
	echo "also compared with $real"
fi

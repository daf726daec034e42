# SPDX-License-Identifier: MIT
# Sourced by the tests of cuGetProcAddress: its answers under the shim against the driver's own.
# shellcheck shell=sh disable=SC2034
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
requests=tests/e2e/data/cudart_requests.tsv

# Where Spillway acts, by the shim's own symbol table.
nm "$build/lib/libspillway.so" | sed -n 's/^[0-9a-f]* t hook_\([A-Za-z0-9_]*\)$/\1/p' | LC_ALL=C sort -u >"$scratch/hooked"
[ "$(wc -l <"$scratch/hooked")" -gt 200 ] || fail "only $(wc -l <"$scratch/hooked") hooks were found in the shim"

# compare NAME DRIVER SHIM: two files of answers, without and with the shim. Every pointer must be
# what we export as exactly the symbol the driver gave (what dlsym finds, as with the driver), or
# the driver's own where nothing is hooked; all else must be equal.
compare() {
	awk -v where="$1" '
		FILENAME == ARGV[1] { hooked[$1] = 1; next }
		FILENAME == ARGV[2] { expected[$1, $2, $3] = $7; result[$1, $2, $3] = $4 " " $5; m++; next }
		{
			key = $1 SUBSEP $2 SUBSEP $3
			want = expected[key]
			got = $7
			n++
			if (result[key] != $4 " " $5) { print where ": " $0 ": driver answers " result[key]; bad = 1 }
			else if (got != want) { print where ": " $0 ": got " got ", the driver gives " want; bad = 1 }
			else if ((want in hooked) != ($6 == "shim")) { print where ": " $0 ": hooked but not handed out, or reverse"; bad = 1 }
		}
		END { if (n < 462 || n != m) { print where ": only " n " answers, without the shim " m; bad = 1 } exit bad }
	' "$scratch/hooked" "$2" "$3" || fail "$1: see above"
}

every_version="2000 2020 3000 3010 3020 4000 4010 5000 5050 6000 6050 7000 7050 8000 9000 9020 10000 10010 10020 11000
	11010 11020 11030 11040 11050 11060 11070 11080 12000 12010 12020 12030 12040 12050 12060 12080 12090 13000 13010 13020 13030 13040 13050"

# Each base name at each of these versions of CUDA, for both kinds of default stream.
every_request() { # every_request VERSION... < exported symbols
	sed 's/_pt[ds][sz]$//; s/_v[0-9]$//' | LC_ALL=C sort -u | awk -v versions="$*" '
		BEGIN { n = split(versions, version, " ") }
		{ for (i = 1; i <= n; i++) for (flags = 0; flags <= 2; flags++) print $1 "\t" version[i] "\t" flags }'
}

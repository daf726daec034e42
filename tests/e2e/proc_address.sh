# Sourced by the tests of cuGetProcAddress: what it hands out under the shim against the driver's own answers.
# shellcheck shell=sh disable=SC2034
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
requests=tests/e2e/data/cudart_requests.tsv

# Where Spillway acts, by the shim's own symbol table.
nm "$build/lib/libspillway.so" | sed -n 's/^[0-9a-f]* t hook_\([A-Za-z0-9_]*\)$/\1/p' | LC_ALL=C sort -u >"$scratch/hooked"
[ "$(wc -l <"$scratch/hooked")" -gt 200 ] || fail "only $(wc -l <"$scratch/hooked") hooks were found in the shim"

# compare NAME DRIVER SHIM: two files of answers, without and with the shim. Every pointer must be what we export as
# exactly the symbol the driver gave (what dlsym finds, as with the driver), or the driver's own where nothing
# is hooked; all else must be equal.
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

#!/bin/sh
# SPDX-License-Identifier: MIT
# The table of the programs that judge: README's is that of the members, and one that says
# something else is found. A test that must run may not be skipped. A schedule leaves the job its
# memory.
set -eu
. tests/e2e/lib.sh
unset TESTS # of the run that this is part of
judges=tests/clients/judges

$judges check README.md || fail "README.md"
$judges check tests/clients/README.md client || fail "README.md of the clients"
rows=$(sed -n '/^| program | version |/,/^$/p' README.md)
mkdir "$scratch/ran"
printf '%s\n' "$rows" | sed -n 3p >"$scratch/ran/first"
printf '%s\n' "$rows" | sed -n 4p >"$scratch/ran/second"
$judges compare "$scratch/ran" README.md || fail "two of the rows are README's"
same "the rows of two" "$(printf '%s\n' "$rows" | sed -n 1,4p)" "$($judges print "$scratch/ran")"
sed -i 's/[^|]*|$/ other bits |/' "$scratch/ran/second"
! $judges compare "$scratch/ran" README.md 2>"$scratch/said" || fail "a result that is not README's"
has "it says which" "$(cat "$scratch/said")" "other bits"
! (sed 's/^| Triton | [^|]*/| Triton | 0.0 /' README.md >"$scratch/page" &&
	$judges check "$scratch/page") 2>/dev/null || fail "a version that is not pinned"
! (grep -v '^| Triton ' README.md >"$scratch/page" && $judges check "$scratch/page") 2>/dev/null ||
	fail "a row that is missing"

# A test that must run
printf '#!/bin/sh\necho no time\nexit 77\n' >"$scratch/test_skips.sh"
chmod +x "$scratch/test_skips.sh"
said=$(MUST_RUN='' tests/run "$scratch/test_skips.sh") || fail "a skip: $said"
has "a skip" "$said" "0 passed, 0 failed, 1 skipped"
! said=$(MUST_RUN="$scratch/test_skips.sh" tests/run "$scratch/test_skips.sh") || fail "it must run: $said"
has "a skip" "$said" "must run here, and is skipped: no time"
! said=$(MUST_RUN=clients/test_absent.sh tests/run "$scratch/test_skips.sh") || fail "it is absent: $said"
has "an absent one" "$said" "clients/test_absent.sh must run here, and is not among the tests"

# Limit and host memory of a job are the total or more, whatever limit is set when the program asks.
cat >"$scratch/tool" <<'END'
#!/bin/sh
echo "$@" >>"$ASKED"
[ "$1" != run ] || exec sleep 3
END
chmod +x "$scratch/tool"
export ASKED="$scratch/asked" SPILLWAY="$scratch/tool" TOTAL_KIB=1000000 SEED=7
said=$(tests/clients/schedule.py job 80000 program) || fail "a schedule: $said"
sed -n 's/.*--memory \([0-9]*\)KiB.*/\1/p' "$scratch/asked" | sort -n >"$scratch/limits"
[ "$(wc -l <"$scratch/limits")" -ge 2 ] || fail "no change of the limit: $(cat "$scratch/asked")"
on_host=$(sed -n 's/.*--host-memory \([0-9]*\)KiB.*/\1/p' "$scratch/asked")
[ $(($(head -n 1 "$scratch/limits") + on_host)) -ge 1000000 ] ||
	fail "less than the total: $(cat "$scratch/asked")"

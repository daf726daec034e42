#!/bin/sh
# SPDX-License-Identifier: MIT
# Each driver call of allocating and moving memory fails at each of its uses. The program allocates,
# computes, has its limit lowered and raised, exports and frees. Its bytes are right, trying again
# mends an error that it sees, and no memory stays taken.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
quick="demote_deadline=1ms"
# Three chunks, the last in part, two chunks and a slab; in the long form five, two and a slab.
if [ "${FORM:-}" = long ]; then largest=9 least=6 most=14; else largest=5 least=4 most=10; fi # MiB

# commands INI
commands() {
	cat <<END
try alloc a $((largest * 1024))
try alloc b 4096
try alloc c 100
fill a 11
fill b 12
fill c 13
mix a b 1 3
sync
block
mix_blocked b c 4
unblock
sync
sum a b c
limit $1 $((least * mib)) $quick
settle $((least * mib))
mix a b 2 3
sum a b c
limit $1 $((64 * mib)) $quick
rise $((most * mib))
mix b a 3 3
sum a b c
try ipc a
free b
free a
free c
sync
limit $1 1 $quick
settle 0
END
}

# scenario JOB FAULTS: what the program says
scenario() {
	limit_file "$scratch/$1.ini" $((64 * mib)) "$quick" "[job]" "name = $1"
	commands "$scratch/$1.ini" | SOFTGPU_FAIL=$2 SPILLWAY_CONFIG="$scratch/$1.ini" under_shim \
		timeout $patience "$build/tests/e2e/driven" 2>"$scratch/$1.errors" || echo "exit status $?"
}

# handed_on ERROR CALL: without the error where a call of the program waits by that very call and
# hands it on
handed_on() {
	case $2 in
	cuCtxSynchronize | cuStreamSynchronize) sed "8,12s/^$1\$/0/; 23,26s/^$1\$/0/" ;;
	*) cat ;;
	esac
}

# fails_everywhere CALL
fails_everywhere() {
	use=0 failed=yes
	while [ $failed = yes ]; do
		use=$((use + 1))
		error=2
		[ $((use % 2)) = 0 ] || error=999
		name=$1-$use
		scenario "$name" "$1:$use=$error" | handed_on $error "$1" >"$scratch/$name.said"
		grep -q "use $use of $1" "$scratch/$name.errors" || failed=no
		cmp -s "$scratch/$name.said" "$scratch/right" || {
			echo "use $use of $1 answers $error: < right, > said"
			diff "$scratch/right" "$scratch/$name.said" || true
			cat "$scratch/$name.errors"
		} >>"$scratch/wrong"
	done
	echo "$1: $((use - 1)) uses"
	[ $use -gt 1 ] || echo "$1 is not used" >>"$scratch/wrong"
}

scenario right "" >"$scratch/right"
same "numbers of answers" "$(commands x | wc -l)" "$(wc -l <"$scratch/right")"
for line in 15 19 28; do same "command $line, a wait" 0 "$(sed -n ${line}p "$scratch/right")"; done
# Mostly they wait: several at a time.
set --
for calls in "cuMemCreate cuMemcpyAsync" "cuMemMap cuStreamQuery cuStreamCreate" "cuMemUnmap cuStreamSynchronize" \
	"cuMemRelease cuMemAddressReserve" "cuMemSetAccess cuCtxSynchronize cuCtxPushCurrent_v2 cuCtxPopCurrent_v2"; do
	# A machine for each: where NVML knows no process, what another takes may be charged to this
	# one.
	(
		SOFTGPU_STATE_DIR=$scratch/softgpu-${calls%% *}
		mkdir "$SOFTGPU_STATE_DIR"
		for call in $calls; do fails_everywhere "$call"; done
	) &
	set -- "$@" $!
done
for worker in "$@"; do wait "$worker" || fail "a worker failed"; done
[ ! -e "$scratch/wrong" ] || fail "$(cat "$scratch/wrong")"

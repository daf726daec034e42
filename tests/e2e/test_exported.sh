#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory that a job has exported stays in its quota until no process of the job can hold it.
# Processes free it, are killed, keep a descriptor or have it open. Judged by the software GPU's own
# books; 20 MiB a piece, 100 MiB a job.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
exported=$build/tests/e2e/exported
mib=1048576

# Says where the program is and what is held then: by the software GPU, by the job, and as orphaned.
# Waits for what is expected of the helper's next look: nothing is to be left.
cat >"$scratch/look" <<'END'
#!/bin/sh
unset LD_PRELOAD
. tests/e2e/lib.sh
charged() { counter "$JOB" device_charged; }
orphaned() { counter "$JOB" device_orphaned; }
is_none() { [ "$(device_bytes)" = "${HELD_ELSEWHERE:-0}" ] && [ "$(charged)" = 0 ] && [ "$(orphaned)" = 0 ]; }
has_drained() { [ "$(charged)" = "$(orphaned)" ]; }
case $1 in
none) until_true $patience is_none || : ;;
drained) until_true $patience has_drained || : ;;
esac
echo "$1 held=$(device_bytes) charged=$(charged) orphaned=$(orphaned)" >>"$LOG"
END
chmod +x "$scratch/look"

# a_case NAME: what it printed is in $said, what was seen in $seen
a_case() {
	LOG=$scratch/$1.log
	: >"$LOG"
	said=$(LOOK=$scratch/look LOG=$LOG JOB=$1 TMPDIR=$scratch "$spillway" run --softgpu --quiet --name "$1" --memory 100MiB \
		"$exported" "$@" 2>"$scratch/err") || fail "$1: $said $(cat "$scratch/err") $(cat "$LOG")"
	seen=$(cat "$LOG")
	echo "$1: $said"
	echo "$seen"
}

# at WHERE HELD CHARGED ORPHANED, in MiB
at() {
	has "$1" "$seen" "$1 held=$(($2 * mib)) charged=$(($3 * mib)) orphaned=$(($4 * mib))"
}

a_case imported
same "imported" "imported 5" "$said"
at full 100 100 100
at again 100 100 100
at none 0 0 0

a_case descriptor
same "a descriptor kept" "kept 5" "$said"
at full 100 100 100
at none 0 0 0

a_case late
same "exported when there is room" "late 0" "$said $(counter late refusals)"
at full 100 100 0
a_case orders
same "exported when it is mapped" "orders 0" "$said $(counter orders refusals)"
at full 100 100 0
a_case twice
same "exported when it is mapped twice" "twice 0" "$said $(counter twice refusals)"
at full 100 100 0

a_case ipc
# Of the fifth the plain memory and that which can be exported would have to be there at a time.
same "by a handle" "opened 4" "$said"
same "by a handle, orphaned" $((80 * mib)) "$(field orphaned "$seen")"
[ "$(field held "$seen")" -le $((100 * mib)) ] || fail "more is held than may be: $seen"
at none 0 0 0

# The driver's own handles, where memory does not move.
export SPILLWAY_SPILL=managed
a_case ipc
same "by the driver's handle" "opened 5" "$said"
at full 100 100 100
at none 0 0 0
a_case killed_ipc
at drained 80 80 80
at none 0 0 0
unset SPILLWAY_SPILL

a_case killed
at shared 80 80 0
at drained 80 80 80
at none 0 0 0

a_case killed_ipc
at drained 80 80 80
at none 0 0 0

a_case rounds
at none 0 0 0
a_case rounds_of_two
at none 0 0 0

# Memory of others is charged to who imports it: with the mark of another job, and without any.
for giver in "$spillway run --softgpu --quiet --name giver --memory 400MiB" "env LD_LIBRARY_PATH=$softgpu"; do
	socket=$scratch/socket
	rm -f "$socket"
	$giver "$exported" give "$socket" 8 &
	until_true $patience test -S "$socket" || fail "nobody gives"
	export HELD_ELSEWHERE=$((160 * mib))
	LOG=$scratch/take.log
	: >"$LOG"
	said=$(LOOK=$scratch/look LOG=$LOG JOB=taker TMPDIR=$scratch "$spillway" run --softgpu --quiet --name taker --memory 100MiB \
		"$exported" take "$socket" 8 2>"$scratch/err") || fail "take: $said $(cat "$scratch/err")"
	wait $!
	unset HELD_ELSEWHERE
	seen=$(cat "$LOG")
	same "of others" "took 5" "$said"
	at full 160 100 0
	at none 160 0 0
	same "of others, said once" 1 "$(grep -c "of another job\|another job, or a process without Spillway, exported" "$scratch/err")"
done

# Who is refused because what cannot leave the device fills the limit is told so once, and what
# limit is enough.
for how in create ipc pool; do
	limit=100
	had=0
	for _ in 1 2 3; do
		said=$("$spillway" run --softgpu --quiet --name "full-$how-$limit" --memory "${limit}MiB" "$exported" "fill_$how" \
			2>"$scratch/err") || fail "$how: $said $(cat "$scratch/err")"
		now=$(field had "had=${said#had }")
		[ "$now" -gt "$had" ] || fail "$how: with $limit MiB, which were said to be enough, not more than $had pieces"
		had=$now
		[ "$had" -lt 6 ] || break
		same "$how, lines" 1 "$(grep -c "memory that cannot leave the GPU fills the memory limit" "$scratch/err")"
		next=$(sed -n 's/.*--memory \([0-9]*\)MiB` would be enough.*/\1/p' "$scratch/err")
		[ "$next" -gt "$limit" ] || fail "$how: $next MiB are said to be enough, and are not"
		limit=$next
	done
	echo "$how: $had pieces with $limit MiB"
	same "$how" 6 "$had"
done

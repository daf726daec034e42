#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory changes hands between two users' jobs, which share the node's directory alone. Memory of
# one user's idle job goes to the other's job while that works. Its owner has it back, with all its
# bytes. Judged by the books of the software GPU.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
if [ "$(id -u)" -ne 0 ] || ! setpriv --reuid 65532 --regid 65532 --clear-groups true 2>/dev/null; then
	echo "needs root, for jobs of two users"
	exit 77
fi
# Where both users come to: TMPDIR is ours alone.
common=$(mktemp -d /dev/shm/spillway-test.XXXXXX)
trap 'rm -rf "$common"' EXIT
chmod 755 "$common"
mkdir "$common/tree"
cp -r "$build/spillway" "$build/lib" "$build/softgpu" "$build/tests/e2e/moves" "$build/tests/e2e/allocate" "$common/tree/"
chmod -R a+rX "$common/tree"
spillway=$common/tree/spillway
SOFTGPU_STATE_DIR=$common/gpu
SPILLWAY_NODE_DIR=$common/node
export SOFTGPU_STATE_DIR SPILLWAY_NODE_DIR SOFTGPU_MEMORY=96M SOFTGPU_KERNEL_TIME_US=2000
install -d -m 1777 "$SPILLWAY_NODE_DIR"
install -d -m 777 "$SOFTGPU_STATE_DIR" "$common/made"
install -d -m 700 -o 65532 "$common/state-65532"
install -d -m 700 -o 65533 "$common/state-65533"
# as USER COMMAND...
as() {
	user=$1
	shift
	setpriv --reuid "$user" --regid "$user" --clear-groups env SPILLWAY_STATE_DIR="$common/state-$user" "$@"
}
# number USER JOB KEY: what the user is told of its job
number() {
	as "$1" "$spillway" stat "$2" --json 2>/dev/null | sed 's/,"processes":.*//' | tr ',{' '\n' |
		awk -F: -v name="\"$3\"" '$1 == name { gsub("[]\"}]", "", $2); print $2; exit }'
}
at_least() { [ "$(number "$1" "$2" "$3")" -ge "$4" ]; }
is() { [ "$(number "$1" "$2" "$3")" = "$4" ]; }
pid_of_user() {
	as "$1" "$spillway" stat "$2" --json | sed 's/.*"processes":\[{"pid":\([0-9]*\),.*/\1/'
}
as 65532 "$spillway" run --softgpu --quiet --name anna --idle-yield 300ms "$common/tree/allocate" --mib 8 --count 9 \
	--ready "$common/made/ready" --until "$common/stop" >"$scratch/anna" 2>&1 &
anna=$!
until_true $patience test -e "$common/made/ready" || fail "anna does not begin: $(cat "$scratch/anna")"
pid=$(pid_of_user 65532 anna)
same 'what she holds' $((72 * mib)) "$(held_by "$pid")"

as 65533 "$spillway" run --softgpu --quiet --name ben "$common/tree/moves" --mode one --mib 64 --until "$common/end" \
	>"$scratch/ben" 2>"$scratch/errors" &
ben=$!
begins() { at_least 65533 ben launches 20; }
until_true $patience begins || fail "ben does not begin: $(cat "$scratch/errors")"
# Each has a peer record of its own there, and no file of the other's.
peers_of() { find "$SPILLWAY_NODE_DIR" -name "card-*-$1-*" -user "$1" | wc -l; }
has_record() { [ "$(peers_of "$1")" = 1 ]; }
for user in 65532 65533; do
	until_true $patience has_record $user || fail "peers of $user: $(peers_of $user)"
done
all_there() { is 65533 ben host_used 0; }
until_true $patience all_there || fail "ben: $(number 65533 ben host_used) bytes stay on the host; $("$softgpu/softgpu-truth")"
[ "$(held_by "$pid")" -lt $((40 * mib)) ] || fail "anna keeps $(held_by "$pid") bytes"
lends() { at_least 65532 anna lent $((32 * mib)); }
until_true $patience lends || fail "anna: stat says that $(number 65532 anna lent) bytes are lent"
! built_in events || as 65532 "$spillway" events --since @0 anna | grep -q '  yield  bytes ' || fail "anna: no event of what she gave"

# The other ends: hers come back when she goes on, and are what they were.
touch "$common/end"
wait $ben || fail "ben: $(cat "$scratch/errors")"
got=$(cat "$scratch/ben")
steps=$(printf '%s\n' "$got" | sed -n 's/^steps=\([0-9,]*\) .*/\1/p')
mkdir "$scratch/alone"
same ben "$(SOFTGPU_STATE_DIR="$scratch/alone" on_softgpu "$build/tests/e2e/moves" --mode one --mib 64 --steps "$steps")" "$got"
touch "$common/stop"
wait $anna || fail "anna: $(cat "$scratch/anna")"
has anna "$(cat "$scratch/anna")" 'refused=0'

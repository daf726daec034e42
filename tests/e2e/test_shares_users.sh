#!/bin/sh
# SPDX-License-Identifier: MIT
# Shares between two users do not hold together until root has made the place for turns by
# `spillway doctor --setup`, and both are told so. From then on 60 % and 60 % have half each.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
if [ "$(id -u)" -ne 0 ] || ! setpriv --reuid 65532 --regid 65532 --clear-groups true 2>/dev/null || ! unshare --mount true 2>/dev/null; then
	echo "needs root, for jobs of two users"
	exit 77
fi
# Where both users come to: TMPDIR is ours alone.
common=$(mktemp -d /dev/shm/spillway-test.XXXXXX)
trap 'end_started; rm -rf "$common"' EXIT
chmod 755 "$common"
mkdir "$common/tree"
cp -r "$build/spillway" "$build/lib" "$build/softgpu" "$build/clients/pace_load" "$build/clients/busy_kernels.ptx" "$common/tree/"
chmod -R a+rX "$common/tree"
spillway=$common/tree/spillway
SOFTGPU_STATE_DIR=$common/gpu
SPILLWAY_NODE_DIR=$common/node
SPILLWAY_DRIVER=$common/tree/softgpu/libcuda.so.1
export SOFTGPU_STATE_DIR SPILLWAY_NODE_DIR SPILLWAY_DRIVER
group=games
install -d -m 1777 "$SPILLWAY_NODE_DIR"
install -d -m 1777 "$SOFTGPU_STATE_DIR"
for user in 65532 65533; do
	install -d -m 700 -o $user "$common/state-$user"
done
# as USER COMMAND...
as() {
	user=$1
	shift
	setpriv --reuid "$user" --regid "$user" --groups $group env SPILLWAY_STATE_DIR="$common/state-$user" "$@"
}
# start USER JOB
start() {
	as "$1" "$spillway" run --softgpu --quiet --name "$2" --share 60 "$common/tree/pace_load" --asleep --seconds 1000 >"$scratch/$2" 2>&1 &
}
stat_of() { as "$1" "$spillway" stat "$2" --json 2>/dev/null; }
pid_of_user() { stat_of "$1" "$2" | sed 's/.*"processes":\[{"pid":\([0-9]*\),.*/\1/'; }
begins() { [ "$(stat_of "$1" "$2" | sed -n 's/.*"launches":\([0-9]*\),"graph.*"processes".*/\1/p')" -gt 20 ]; }
sees() { as "$1" "$spillway" stat | grep -Eq "^$2 +[0-9]+ +running +1 +0 "; }
# both JOB JOB: of two users, which see each other
both() {
	start 65532 "$1"
	start 65533 "$2"
	until_true $patience begins 65532 "$1" || fail "$1 does not begin: $(cat "$scratch/$1")"
	until_true $patience begins 65533 "$2" || fail "$2 does not begin: $(cat "$scratch/$2")"
	until_true $patience sees 65532 "$2" || fail "$1 does not see $2: $(ls "$SPILLWAY_NODE_DIR")"
	until_true $patience sees 65533 "$1" || fail "$2 does not see $1: $(ls "$SPILLWAY_NODE_DIR")"
	anna=$(pid_of_user 65532 "$1") ben=$(pid_of_user 65533 "$2")
}
end_both() {
	kill -KILL "$anna" "$ben"
	wait || :
}
told() { # told USER JOB yes|no: whether its share may not hold
	as "$1" "$spillway" stat "$2" >"$scratch/told" 2>&1
	case $(cat "$scratch/told") in *'* by this user'*) answer=yes ;; *) answer=no ;; esac
	same "$2 is told that its share may not hold" "$3" "$answer"
}
turn_file() { grep -o 'turns-GPU.*' "/proc/$1/maps" | sort -u; }
uuid=GPU-7370696c-6c77-6179-2073-6f6674677000

# Before: each takes turns with jobs of its own user alone, and both are told.
both anna ben
told 65532 anna yes
told 65533 ben yes
same 'the turn file of anna' "turns-$uuid-65532" "$(turn_file "$anna")"
same 'the turn file of ben' "turns-$uuid-65533" "$(turn_file "$ben")"

# Root makes the place, which takes one command.
# shellcheck disable=SC2016
unshare --mount sh -c 'mkdir -p /etc/tmpfiles.d && mount -t tmpfs none /etc/tmpfiles.d && exec "$@"' sh \
	"$spillway" doctor --setup --group $group >"$scratch/setup" 2>&1 || fail "doctor --setup: $(cat "$scratch/setup")"
# Jobs that began before do not take part.
told 65532 anna yes
told 65533 ben yes
end_both

held_of() {
	awk -v pids="$1" -f tests/bench/held.awk "$scratch/samples" | sed 's/held=\([0-9]*\).*/\1/'
}
# What both are told to hold is more than there is where they take no turns: 57 % and 57 %.
held_shown() { stat_of "$1" "$2" | sed -n 's/.*"share_held":\([0-9]*\),.*"processes".*/\1/p'; }
holds() { [ "$(held_shown "$1" "$2")" -gt 0 ]; }
halves() {
	timeout 2 "$softgpu/softgpu-truth" --watch 10 >"$scratch/samples" || :
	hers=$(held_of "$anna") his=$(held_of "$ben")
	said=$(($(held_shown 65532 anna-again) + $(held_shown 65533 ben-again)))
	echo "60 % and 60 % held $hers % and $his %, and stat says $said thousandths together"
	[ $said -le 105000 ] || off "of one GPU stat says that they held $said thousandths of a percent"
	[ "$hers" -le $((3 * his / 2)) ] && [ "$his" -le $((3 * hers / 2)) ] || off "60 % and 60 % held $hers % and $his %"
}
both anna-again ben-again
told 65532 anna-again no
told 65533 ben-again no
same 'the turn file of anna' "turns-$uuid" "$(turn_file "$anna")"
same 'the turn file of ben' "turns-$uuid" "$(turn_file "$ben")"
until_true $patience holds 65532 anna-again || fail "nothing is said of the share of anna"
until_true $patience holds 65533 ben-again || fail "nothing is said of the share of ben"
undisturbed halves
end_both
cat "$scratch/try"

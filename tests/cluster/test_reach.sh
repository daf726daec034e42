#!/bin/sh
# SPDX-License-Identifier: MIT
# Root looks at the jobs of all users in full, with each command, and harms no user. Another user
# sees their pages alone.
set -eu
# shellcheck source=tests/cluster/node.sh
. tests/cluster/node.sh
[ "$(id -u)" -eq 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null || {
	echo "needs root, for jobs of two users"
	exit 77
}
preloaded yes
configured '[gpu]' 'memory = 16MiB'
install -d -m 1777 /run/spillway "$node/ready"
as() { # as USER COMMAND...
	user=$1
	shift
	setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}
job_of() { # job_of USER NAME: holds 24 MiB until the end, 8 of them on the host
	install -d -m 700 -o "$1" "$node/gpu-$2" "$node/state-$1"
	as "$1" env SPILLWAY_STATE_DIR="$node/state-$1" SOFTGPU_STATE_DIR="$node/gpu-$2" SPILLWAY_JOB="$2" "$node/bin/allocate" --mib 8 --count 3 --hold-ms 600000 \
		--ready "$node/ready/$2" >"$scratch/$2.out" 2>&1 &
	until_true $patience test -e "$node/ready/$2" || fail "$2: not ready: $(cat "$scratch/$2.out")"
}
export SPILLWAY_STATE_DIR="$node/state-0"
job_of 0 ours
job_of 65534 theirs
job_of 65533 others
user=$(id -un 65534 2>/dev/null || echo 65534)
has_page() { ls /run/spillway/job-"$1"-*.page >/dev/null 2>&1; }
until_true $patience has_page 65534 || fail "no page of the other user's job"
until_true $patience has_page 65533 || fail "no page of the third user's job"
: >/etc/ld.so.preload
says() { # says WHAT PATTERN
	grep -Eq "$2" "$scratch/out" || fail "$1: expected /$2/ in $(cat "$scratch/out")"
}
# asks COMMAND...: what root is told
asks() { "$spillway" "$@" >"$scratch/out" 2>"$scratch/err" || fail "$*: $(cat "$scratch/err")"; }

asks stat
says stat "^theirs +$user +running +1 +0 +16\.0 MiB +16\.0 MiB +[0-9.]+ MiB +8\.00 MiB +100 %"
says stat "^others .* [0-9.]+ MiB +8\.00 MiB +100 %"
says stat "^ours .* [0-9.]+ MiB +8\.00 MiB +100 %"
asks stat --format prometheus
says metrics "^spillway_spilled_bytes_total\{spillway_job=\"theirs\",user=\"$user\",.*\} 8388608$"
says metrics '^spillway_spilled_bytes_total\{spillway_job="others",user="65533",.*\} 8388608$'
asks stat --textfile "$scratch/textfile.prom"
grep -q '^spillway_spilled_bytes_total{spillway_job="theirs"' "$scratch/textfile.prom" || fail "textfile"
asks stat --json
python3 - "$scratch/out" <<'END' || fail "json"
import json, sys
jobs = {j["job"]: j for j in json.load(open(sys.argv[1]))["jobs"]}
assert {j["devices"][0]["spilled_bytes"] for j in jobs.values()} == {8 << 20}, jobs
assert len({j["user"] for j in jobs.values()}) == 3 and len(jobs) == 3
END
asks top
says top "^ *[0-9]+ +$user/theirs "
says top '^ *[0-9]+ +65533/others '
says top '^ *[0-9]+ +ours '
asks events --since @0
says events "  $user/theirs/[0-9]+  gpu 0  spill "
says events '  65533/others/[0-9]+  gpu 0  spill '
says events '  ours/[0-9]+  gpu 0  spill '
[ "$(sort -s -c -k1,2 "$scratch/out" 2>&1)" = "" ] || fail "events: not in order of time: $(cat "$scratch/out")"
asks events --since @0 --json
says events "\"job\":\"theirs\",\"user\":\"$user\","
asks events --since @0 "$user/theirs"
says events '  theirs/[0-9]+  gpu 0  spill '
# one that goes on finds a job that begins meanwhile
"$spillway" events --since @0 --follow >"$scratch/followed" 2>&1 &
follower=$!
until_true $patience grep -q '/others/' "$scratch/followed" || fail "events --follow: $(cat "$scratch/followed")"
echo "$lib/libspillway.so $lib/libspillway-alias.so" >/etc/ld.so.preload
job_of 65532 later
: >/etc/ld.so.preload
until_true $patience grep -q ' 65532/later/[0-9]*  gpu 0  spill' "$scratch/followed" || fail "events --follow: $(cat "$scratch/followed")"
kill $follower
asks stat --resources theirs
says resources '^ *8\.00 MiB .* /job:theirs/process:[0-9]+/gpu:0/ctx[0-9]*/allocation/'
asks set theirs --memory 8MiB
says set 'limit 8\.00 MiB'
[ -z "$(find "$node/state-65534" ! -user 65534)" ] || fail "root left files with another user"

# Root that may become nobody is told so, too.
for less in -setgid -setuid -setuid,-setgid; do
	setpriv --bounding-set $less "$spillway" stat >"$scratch/out" 2>"$scratch/err" || fail "$less: $(cat "$scratch/err")"
	says "$less" '^theirs .*B +- +100 % +- +- +- +-$'
	says "$less" '^ours .* MiB +8\.00 MiB +100 %'
done

# Another user is told of them what they tell everybody.
as 65533 env SPILLWAY_STATE_DIR="$node/state-65533" "$spillway" stat --format prometheus >"$scratch/out"
says "another user" '^spillway_spilled_bytes_total\{spillway_job="others",'
says "another user" '^spillway_device_charged_bytes\{spillway_job="theirs",'
! grep -q '^spillway_spilled_bytes_total{spillway_job="theirs"' "$scratch/out" || fail "another user sees counters"
as 65533 env SPILLWAY_STATE_DIR="$node/state-65533" "$spillway" events --since @0 >"$scratch/out"
says "another user" ' others/'
! grep -q theirs "$scratch/out" || fail "another user sees events"

# What a user puts in the place of a job's files harms nobody: the page is left of it.
for trap in pipe link noise; do
	rm -f "$node/state-65533"/others.segment
	case $trap in
	pipe) mkfifo "$node/state-65533"/others.segment ;;
	link) ln -s "$node/state-65534"/theirs.segment "$node/state-65533"/others.segment ;;
	noise) head -c 100000 /dev/urandom >"$node/state-65533"/others.segment ;;
	esac
	asks stat
	says "$trap" '^theirs .* 8\.00 MiB '
	says "$trap" '^others .*B +- +100 % +- +- +- +-$'
	asks events --since @0
	says "$trap" "/theirs/"
done

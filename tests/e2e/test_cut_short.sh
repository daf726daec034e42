#!/bin/sh
# SPDX-License-Identifier: MIT
# A file that a job maps is cut short. Only its own user can do that. The job's processes end or go
# on, and none has more than the limit afterwards.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
job=
# shellcheck disable=SC2086 # a number or nothing
trap 'kill -9 $job 2>/dev/null || true' EXIT
allocate=$build/tests/e2e/allocate
case ${SANITIZER:-} in address | thread)
	echo "this sanitizer catches SIGBUS"
	exit 77
	;;
esac
export SPILLWAY_MEMORY=16MiB SPILLWAY_SHARE=60

# cut FILE HOW: to nothing, or to nothing and at once back to its size
cut() {
	python3 -c '
import os, sys
size = os.path.getsize(sys.argv[1])
fd = os.open(sys.argv[1], os.O_RDWR)
os.ftruncate(fd, 0)
if sys.argv[2] == "back":
    os.ftruncate(fd, size)
' "$1" "$2"
}
# start JOB: which goes on allocating twice its limit
start() {
	rm -f "$scratch/ready"
	SPILLWAY_JOB=$1 LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$allocate" --mib 4 --count 8 --rounds 40 --hold-ms 20 \
		--ready "$scratch/ready" >"$scratch/out" 2>"$scratch/err" &
	job=$!
	until_true $patience test -e "$scratch/ready" || fail "$1 does not run: $(cat "$scratch/err")"
}
find_file() {
	# shellcheck disable=SC2031
	file=$(find "$SPILLWAY_STATE_DIR" -name "cut-$what-$how*.$what" -o -name "$what-*" -size +0 | head -n 1)
	[ -n "$file" ]
}
within() { device_within $((16 * mib)) || fail "$1: $(device_bytes) bytes on the device"; }

start strangers
# Nobody else may write to anything there, or go there at all.
same "files that others may write" "" "$(find "$SPILLWAY_STATE_DIR" -perm /022)"
same "files of others" "" "$(find "$SPILLWAY_STATE_DIR" ! -user "$(id -u)")"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && [ -d /dev/shm ]; then
	kill -9 $job
	wait $job || true
	mkdir -m 700 "/dev/shm/cut-short.$$"
	trap 'kill -9 $job 2>/dev/null || true; rm -rf "/dev/shm/cut-short.$$"' EXIT
	(
		# shellcheck disable=SC2030 # for this part alone
		export SPILLWAY_STATE_DIR=/dev/shm/cut-short.$$
		start strangers
		for file in "$SPILLWAY_STATE_DIR"/strangers.segment "$SPILLWAY_STATE_DIR"/*.events; do
			! built_in events && [ "${file%.events}" != "$file" ] && continue
			[ -e "$file" ] || fail "there is no $file"
			setpriv --reuid=65534 --regid=65534 --clear-groups truncate -s 0 "$file" 2>/dev/null && fail "a stranger cuts $file"
			[ -s "$file" ] || fail "$file is empty"
		done
		wait $job || fail "status $?: $(cat "$scratch/err")"
		has "with a stranger about" "$(cat "$scratch/out")" "ok bad=0"
	)
fi
kill -9 $job 2>/dev/null || true
wait $job 2>/dev/null || true

for how in nothing back; do
	for what in segment events turns; do
		[ $what != events ] || built_in events || continue
		start "cut-$what-$how"
		until_true $patience find_file || fail "there is no file of $what"
		cut "$file" $how
		for _ in 1 2 3 4 5; do within "$file cut, $how"; done
		# Who comes now has his place in a job, or none of its memory.
		SPILLWAY_JOB=cut-$what-$how under_shim "$allocate" --mib 4 --count 8 >"$scratch/later" 2>&1 ||
			fail "$file cut, $how: a later program: status $?: $(cat "$scratch/later")"
		has "a later program" "$(cat "$scratch/later")" "ok bad=0"
		within "$file cut, $how, and a later program"
		status=0
		wait $job || status=$?
		# 135: SIGBUS
		case $status in
		0) has "who goes on" "$(cat "$scratch/out")" "ok bad=0" ;;
		135) ;;
		*) fail "$file cut, $how: status $status: $(cat "$scratch/err")" ;;
		esac
	done
done

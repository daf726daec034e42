#!/bin/sh
# SPDX-License-Identifier: MIT
# A reserve of the machine's file: a program without Spillway takes the room that is kept free, and
# two jobs make it anew. One alone could not. Memory comes back when that program has ended. `stat`
# and `doctor` tell the reserve.
set -eu
if [ -z "${INSIDE:-}" ]; then
	map=
	[ "$(id -u)" -eq 0 ] || map="--user --map-root-user"
	# shellcheck disable=SC2086 # options
	unshare $map --mount true 2>/dev/null || {
		echo "no mount namespaces here"
		exit 77
	}
	# shellcheck disable=SC2086
	INSIDE=1 exec unshare $map --mount "$0"
fi
export SOFTGPU_MEMORY=512M
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
cp /etc/passwd /etc/group "$scratch"
mount -t tmpfs none /etc
mkdir /etc/spillway
cp "$scratch/passwd" "$scratch/group" /etc
printf '[ceiling]\nreserve = 192MiB\n' >/etc/spillway/spillway.ini

# hold NAME COMMAND...: a program of 128 MiB runs until the file NAME.end is there
hold() {
	name=$1
	shift
	SPILLWAY_JOB=$name SPILLWAY_LOG=error "$@" "$build/tests/e2e/allocate" --count 16 --ready "$scratch/$name.ready" \
		--until "$scratch/$name.end" >"$scratch/$name.out" 2>&1 &
	eval "$name=$!"
	until_true $patience [ -e "$scratch/$name.ready" ] || fail "$name: $(cat "$scratch/$name.out")"
}
release() {
	: >"$scratch/$1.end"
	eval "wait \$$1" || fail "$1: $(cat "$scratch/$1.out")"
	has "$1: all bytes are right" "$(cat "$scratch/$1.out")" "ok bad=0"
	has "$1: nothing is refused" "$(cat "$scratch/$1.out")" "refused=0"
}

hold one under_shim
hold two under_shim
same "the jobs' memory" $((256 * mib)) "$(device_bytes)"
has "stat" "$("$spillway" stat one --json)" "\"reserve\":$((192 * mib)),"
SPILLWAY_DRIVER=$softgpu/libcuda.so.1 "$spillway" doctor >"$scratch/doctor" || fail "doctor: $(cat "$scratch/doctor")"
has "doctor" "$(cat "$scratch/doctor")" "ok  gpu 0: 192 MiB are left free ([ceiling] reserve)"

# Of 512 MiB the jobs have 256 and two other programs 256. 192 are missing, and a job has 128.
hold other on_softgpu
hold more on_softgpu
within() { device_within $((320 * mib)); }
until_true $patience within || fail "the reserve is not kept: $(device_bytes)"
for job in one two; do
	host=$(counter $job host_used)
	[ "$host" -ge $((64 * mib)) ] || fail "$job gave only $host bytes"
	[ "$(counter $job device_used)" -le $((64 * mib)) ] || fail "$job keeps $(counter $job device_used) bytes"
done
release other
release more
until_true $patience device_at_least $((256 * mib)) || fail "memory stays on the host: $("$spillway" stat)"
release one
release two

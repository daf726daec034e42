#!/bin/sh
# SPDX-License-Identifier: MIT
# In /etc/ld.so.preload the shim comes into set-uid programs too: there it reads no environment,
# writes no file, limits nothing and starts nothing. The program gets the driver's answers.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

[ -z "${SANITIZER:-}" ] || {
	echo "a sanitizer reads its options from the environment, which a set-uid program has not"
	exit 77
}
[ "$(id -u)" -eq 0 ] || {
	echo "needs root, for an /etc/ld.so.preload and set-uid programs of its own"
	exit 77
}
place= # where every user may look, and nothing of ours lies
for folder in /mnt /srv /opt /media; do
	case $build/ in $folder/*) continue ;; esac
	[ ! -d $folder ] || place=$folder
done
ldconfig=$(PATH=$PATH:/sbin:/usr/sbin command -v ldconfig || true)
if [ -z "$place" ] || [ -z "$ldconfig" ] || ! unshare --mount mount -t tmpfs none "$place" 2>"$scratch/err"; then
	echo "no mount namespaces here: $(tail -n 1 "$scratch/err")"
	exit 77
fi

cat >"$scratch/inside" <<EOF
set -eu
mount -t tmpfs -o mode=755 none $place
mkdir $place/driver $place/lib $place/etc $place/hold
chmod 1777 $place/hold
cp $build/lib/libspillway.so $build/lib/libspillway-alias.so $place/lib
ln -s libspillway.so $place/lib/libcuda.so.1
cp $build/bench/null/libcuda.so.1 $place/driver
mkdir -p $place/bin $place/lib/spillway
cp $build/spillway $place/bin
cp $build/lib/*.so $place/lib/spillway
cp $build/tests/e2e/guest $build/tests/e2e/entry $place
for name in guest entry; do
	cp $place/\$name $place/\$name-secure
	chmod 4755 $place/\$name-secure
done
# An /etc of its own: preloaded for everyone, and a driver that the loader finds by itself.
cp /etc/passwd /etc/group /etc/nsswitch.conf $place/etc 2>/dev/null || true
$ldconfig -X -f /dev/null -C $place/etc/ld.so.cache $place/driver /lib /usr/lib \
	/lib/*-linux-gnu* /usr/lib/*-linux-gnu* 2>/dev/null
mount --bind $place/etc /etc
echo "$place/lib/libspillway.so $place/lib/libspillway-alias.so" >/etc/ld.so.preload
export SPILLWAY_MEMORY=16MiB SPILLWAY_JOB=job SPILLWAY_LOG=debug:$place/hold/log
export SPILLWAY_STATE_DIR=$place/hold/state SPILLWAY_DRIVER=$place/none SPILLWAY_CONFIG=$place/none
unset LD_PRELOAD LD_LIBRARY_PATH
user="setpriv --reuid 65534 --regid 65534 --clear-groups"
if [ "\$1" = run ]; then
	SPILLWAY_CONFIG= exec $place/bin/spillway run sh -c 'echo "preload=\$LD_PRELOAD."'
fi
echo "\$*:"
\$user $place/"\$@"
ls -A $place/hold
EOF
in_place() { unshare --mount sh "$scratch/inside" "$@" 2>&1; }
# Less than the limit, so that nothing moves.
steps='init context alloc:2:4 free threads files loaded'

# shellcheck disable=SC2086 # a list of steps
out=$(in_place guest-secure $steps) || fail "set-uid: $out"
case $out in *secure=0*)
	echo "set-uid has no effect here (no-new-privs or nosuid)"
	exit 77
	;;
esac
same "set-uid" "guest-secure $steps:
init=0
context=0
alloc=4 result=0 total=137438953472 errno=kept
free=0
threads=1
files=0
secure=1 shim=1
done" "$out"
# Whom the program asks by path it gets: names are not exchanged either.
out=$(in_place entry-secure libcuda.so.1 "$place/driver/libcuda.so.1") || fail "set-uid: $out"
has "by name" "$out" "libcuda.so.1: shim"
has "by path" "$out" "$place/driver/libcuda.so.1: driver"

# The same program, not set-uid, is in a job: it is the shim that kept still, not the test.
# shellcheck disable=SC2086
out=$(in_place guest $steps) || fail "not set-uid: $out"
has "not set-uid" "$out" "secure=0 shim=1"
has "not set-uid" "$out" "threads=2" # its own, and the helper
has "not set-uid" "$out" "log
state"

# What the machine preloads already 'spillway run' does not preload once more, nor the shim for this
# C library beside it.
out=$(in_place run) || fail "run: $out"
has "run" "$out" "preload=."
has "run" "$out" "/etc/ld.so.preload has $place/lib/libspillway.so already: it stays"

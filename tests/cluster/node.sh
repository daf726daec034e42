# SPDX-License-Identifier: MIT
# Sourced by the tests of enforcement: a machine of its own, in a mount namespace, where the shim is
# preloaded for all users. The test writes /etc/spillway/spillway.ini. The test begins anew within
# it.
# shellcheck shell=sh disable=SC2154,SC2034
if [ -z "${IN_NODE:-}" ]; then
	for map in "" "--user --map-root-user"; do
		# shellcheck disable=SC2086 # options
		unshare $map --mount true 2>/dev/null || continue
		# shellcheck disable=SC2086 # options
		IN_NODE=yes exec unshare $map --mount "$0"
	done
	echo "no mount namespaces here"
	exit 77
fi
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
ldconfig=$(PATH=$PATH:/sbin:/usr/sbin command -v ldconfig)

for node in /mnt /srv /opt /media; do # where other users may read, and nothing of ours lies
	case $build/ in $node/*) ;; *) [ ! -d $node ] || break ;; esac
done
mount -t tmpfs -o mode=755 none "$node"
lib=$node/bin/lib
mkdir "$node/etc" "$node/bin" "$node/bin/lib" "$node/driver" "$node/softgpu" "$node/etc/spillway"
chmod 1777 "$node/softgpu"
cp "$build"/lib/*.so "$build/lib/driver-probe" "$lib"
cp "$build/spillway" "$build/tests/e2e/allocate" "$build/tests/e2e/small" "$build/tests/e2e/guest" "$node/bin"
cp "$softgpu"/libcuda.so.1 "$softgpu"/libnvidia-ml.so.1 "$node/driver"
cp /etc/passwd /etc/group /etc/nsswitch.conf "$node/etc" 2>/dev/null || true
cp -a /etc/alternatives "$node/etc" # of the shell's own tools
# A driver that the loader finds by itself.
$ldconfig -X -f /dev/null -C "$node/etc/ld.so.cache" "$node/driver" /lib /usr/lib /lib/*-linux-gnu* /usr/lib/*-linux-gnu* \
	2>/dev/null || true
mount --bind "$node/etc" /etc
mount -t tmpfs -o mode=1777 none /dev/shm
mount -t tmpfs none /run
ini=/etc/spillway/spillway.ini
unset SPILLWAY_STATE_DIR SPILLWAY_NODE_DIR LD_PRELOAD LD_LIBRARY_PATH
SOFTGPU_STATE_DIR=$node/softgpu
spillway=$node/bin/spillway
own=/dev/shm/spillway-$(id -u)
job=user-$(id -u)
# What is the machine's: the software GPU's variables.
machine=$(env | grep '^SOFTGPU_')

# preloaded yes|no: whether the shim is in every process of the machine
preloaded() {
	: >/etc/ld.so.preload
	[ "$1" = no ] || echo "$lib/libspillway.so $lib/libspillway-alias.so" >/etc/ld.so.preload
}
# configured LINE...: the machine's file
configured() { printf '%s\n' "$@" >$ini; }

# SPDX-License-Identifier: MIT
# Sourced by the tests of containers: node.sh's machine, on which podman runs containers with runc.
# They see the software GPU by a driver that the loader finds by itself.
# shellcheck shell=sh disable=SC2154,SC2034
# shellcheck source=tests/cluster/node.sh
. tests/cluster/node.sh
for program in podman runc; do
	command -v $program >/dev/null || {
		echo "no $program here"
		exit 77
	}
done
mkdir -p /etc/cdi /run/spillway
chmod 1777 /run/spillway
cp "$build/tests/e2e/nvml" "$node/bin"
echo "$lib/libspillway.so $lib/libspillway-alias.so" >"$lib/ld.so.preload"
containers() {
	timeout 120 podman --root "$node/podman" --runroot /run/podman --storage-driver vfs --cgroup-manager=cgroupfs \
		--runtime runc "$@"
}

# container NAME OPTIONS...: a container that does nothing, with these options of podman
container() {
	name=$1 root=$node/root-$1
	shift
	mkdir -p "$root/etc" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/run" "$root/usr/local/vgpu"
	chmod 1777 "$root/tmp"
	for link in /bin /sbin /lib*; do
		[ ! -L "$link" ] || ln -s "$(readlink "$link")" "$root$link"
	done
	cp /etc/passwd /etc/group /etc/ld.so.cache "$root/etc"
	mounts=
	for folder in /usr/bin /usr/sbin /usr/lib*; do
		[ -L "$folder" ] || mounts="$mounts -v $folder:$folder:ro"
	done
	# shellcheck disable=SC2086,SC2046 # options
	containers run -d --name "$name" --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 \
		$mounts -v "$node/bin:$node/bin:ro" -v "$node/driver:$node/driver:ro" \
		-v "$SOFTGPU_STATE_DIR:$SOFTGPU_STATE_DIR" $(printf -- '-e %s ' $machine) "$@" \
		--rootfs "$root" sleep 3600 >"$scratch/podman" 2>&1 || fail "podman: $(cat "$scratch/podman")"
}
# within NAME COMMAND...: in that container, as a fresh shell has it
within() {
	name=$1
	shift
	containers exec "$name" "$@"
}
# takes WHO NAME COUNT COMMAND...: a process there, started by COMMAND, that takes what it gets of
# so many blocks of 8 MiB
takes() {
	who=$1 name=$2 count=$3
	shift 3
	within "$name" "$@" "$node/bin/allocate" --mib 8 --count "$count" --hold-ms 600000 --ready "/tmp/ready.$who" \
		>"$scratch/out.$who" 2>&1 &
	until_true $patience test -e "$node/root-$name/tmp/ready.$who" || fail "$who: not ready: $(cat "$scratch/out.$who")"
	# What it has printed before that takes longer out of a container.
	until_true $patience grep -q refused= "$scratch/out.$who" || fail "$who: says nothing: $(cat "$scratch/out.$who")"
}
gone() {
	containers rm -f -t 0 -a >/dev/null 2>&1 || true
	wait
	until_true $patience is_on_device 0 || fail "$(device_bytes) bytes are left on the device"
}
is_on_device() { [ "$(device_bytes)" -eq "$1" ]; }
# What podman starts is no child of ours.
trap 'status=$?; containers rm -f -t 0 -a >/dev/null 2>&1 || true; end_started; exit $status' EXIT

#!/bin/sh
# SPDX-License-Identifier: MIT
# The archive of make image. Two runs give the same bytes, podman loads it, and a training runs in
# it under a limit. It does the work of both containers of the DaemonSet, with their rights.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/packages/roots.sh
. tests/packages/roots.sh
version=$(sed -n 's/^version := //p' Makefile)
make --no-print-directory -s image-base BUILD="$build" >"$scratch/said" 2>&1 || skip "$(grep -m 1 'cannot fetch' "$scratch/said")"
for run in first second; do
	make --no-print-directory -s run-image BUILD="$build" >"$scratch/said" 2>&1 || fail "make image: $(cat "$scratch/said")"
	archive=$(echo "$build"/packages/spillway-"$version"-image-*.tar)
	cp "$archive" "$scratch/$run"
done
cmp "$scratch/first" "$scratch/second" || fail 'two runs of make image differ'
bytes=$(wc -c <"$archive")
[ "$bytes" -le $((24 << 20)) ] || fail "the image has $bytes bytes, more than 24 MiB"
! tar -xOf "$archive" manifest.json | grep "$PWD" || fail 'the image names the folder it was made in'

for program in podman runc; do
	command -v $program >/dev/null || skip "no $program here"
done
[ "$(id -u)" -eq 0 ] || skip 'only root starts containers here'
runroot=/run/spillway-image.$$ # podman wants a short name
podman="podman --root $scratch/podman --runroot $runroot --storage-driver vfs --cgroup-manager=cgroupfs --runtime runc"
status=0
trap 'status=$?; $podman rm -f -t 0 -a >/dev/null 2>&1 || :; rm -rf "$runroot"; end_started; exit $status' EXIT
$podman load -i "$archive" >"$scratch/said" 2>&1 || fail "podman load: $(cat "$scratch/said")"
# As the DaemonSet's containers, without a network.
within() { # within OPTION... -- COMMAND...
	options=
	while [ "$1" != -- ]; do
		options="$options $1"
		shift
	done
	shift
	# shellcheck disable=SC2086 # options
	timeout 120 $podman run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 $options "localhost/spillway:$version" "$@"
}
within -- sh -c 'spillway --version; spillway run --softgpu --memory 64MiB train_mlp --scale 4 2>&1
	test -e /usr/local/share/man/man1/spillway-run.1' >"$scratch/said" 2>&1 || fail "in the image: $(cat "$scratch/said")"
has 'the version' "$(cat "$scratch/said")" "spillway $version"
has 'the training' "$(cat "$scratch/said")" 'steps=1080 accuracy=96.67'
has 'the summary' "$(cat "$scratch/said")" 'GPU at most 64.0 MiB'

# The first container's lines, until they have put the file in the place of HAMi-core's.
sed -n '/^ *set -u$/,/^ *securityContext:/p' conf/kubernetes/daemonset.yaml | sed 's/sleep 10 &/exit/; $d' >"$scratch/library"
has 'the lines' "$(cat "$scratch/library")" 'cmp -s'
mkdir "$scratch/vgpu"
echo old >"$scratch/vgpu/libvgpu.so"
rights='--read-only --cap-drop ALL --security-opt no-new-privileges'
# shellcheck disable=SC2086 # options
within $rights --cap-add DAC_OVERRIDE -v "$scratch/vgpu:/vgpu" -- /bin/sh -c "$(cat "$scratch/library")" >"$scratch/said" 2>&1 ||
	fail "the first container: $(cat "$scratch/said")"
cmp "$scratch/vgpu/libvgpu.so" "$build/packages/image/root/usr/local/lib/spillway/libvgpu.so" || fail "the first container: $(cat "$scratch/said")"
same 'the list' /usr/local/vgpu/libvgpu.so "$(cat "$scratch/vgpu/ld.so.preload")"
# shellcheck disable=SC2086 # options
within $rights --cap-add SETUID --cap-add SETGID --cap-add SYS_PTRACE -- /usr/local/bin/spillway stat --format prometheus >"$scratch/said" 2>&1 ||
	fail "the second container: $(cat "$scratch/said")"
has 'the metrics' "$(cat "$scratch/said")" '# TYPE spillway_'

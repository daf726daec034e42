#!/bin/sh
# SPDX-License-Identifier: MIT
# make image, on a Debian 12 that is imported in place of the one that a registry has: a training
# runs in it under a limit, and it has the file that the DaemonSet puts on the nodes.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/packages/roots.sh
. tests/packages/roots.sh
version=$(sed -n 's/^version := //p' Makefile)
for program in podman runc; do
	command -v $program >/dev/null || skip "no $program here"
done
need_root bookworm procps
runroot=/run/spillway-image.$$ # podman wants a short name
podman="podman --root $scratch/podman --runroot $runroot --storage-driver vfs --cgroup-manager=cgroupfs --runtime runc"
status=0
trap 'status=$?; $podman rm -f -t 0 -a >/dev/null 2>&1 || :; rm -rf "$runroot"; end_started; exit $status' EXIT
tar -C "$root" --exclude=./made --exclude=./var/cache -c . | $podman import - localhost/base >"$scratch/said" 2>&1 ||
	fail "podman import: $(cat "$scratch/said")"
make --no-print-directory -s run-image BUILD="$build" PODMAN="$podman" IMAGE_BASE=localhost/base >"$scratch/said" 2>&1 ||
	fail "make image: $(cat "$scratch/said")"
# As the DaemonSet's containers, without a network.
within() { timeout 120 $podman run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 "localhost/spillway:$version" "$@"; }
within sh -c 'spillway --version; test -s /usr/local/lib/spillway/libvgpu.so && echo has libvgpu
	spillway run --softgpu --memory 64MiB train_mlp --scale 4 2>&1; test -e /usr/local/share/man/man1/spillway-run.1' \
	>"$scratch/said" 2>&1 || fail "in the image: $(cat "$scratch/said")"
has 'the version' "$(cat "$scratch/said")" "spillway $version"
has 'the file for the nodes' "$(cat "$scratch/said")" 'has libvgpu'
has 'the training' "$(cat "$scratch/said")" 'steps=1080 accuracy=96.67'
has 'the summary' "$(cat "$scratch/said")" 'peak 64.0 MiB on the GPU'

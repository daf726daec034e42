#!/bin/sh
# SPDX-License-Identifier: MIT
# NVIDIA's own driver libraries, old and new, behind the shim; no GPU is needed.
# SPILLWAY_TEST_DRIVER=/path/libcuda.so.1: that one too.
set -eu
# shellcheck source=tests/e2e/real_driver.sh
. tests/e2e/real_driver.sh
arch=$(dpkg --print-architecture 2>/dev/null || uname -m)
addresses=$build/tests/e2e/proc_addresses
entry=$build/tests/e2e/entry
blind=$build/tests/e2e/blind_calls
tables=$build/tests/e2e/export_tables
there=$scratch/there
there_shim=$shim
run_here "$there"

# VERSION:SUITE:PACKAGE. 450 has no cuGetProcAddress, 470 its first form alone, 555 answered the
# recorded requests. 595 is newer than the table of entry points.
packages="450:bullseye:libnvidia-tesla-450-cuda1 470:bullseye:libcuda1 535:bookworm:libcuda1,libnvidia-ml1,nvidia-smi
	550:trixie:libcuda1 555:experimental:libcuda1,libnvidia-ml1,nvidia-smi"
[ "$arch" != amd64 ] || packages="$packages 595:ubuntu:noble-updates:libnvidia-compute-595,nvidia-utils-595"

component() { case $1 in ubuntu:*) echo restricted ;; *) echo non-free ;; esac; }
for package in $packages; do
	version=${package%%:*} rest=${package#*:}
	# shellcheck disable=SC2046 # a list of packages
	tools/dev/fetch-deb "${rest%:*}" "$(component "$rest")" "$arch" "$build/debs/nvidia-$version" $(echo "${rest##*:}" | tr , ' ') \
		2>"$scratch/fetch-$version" &
done
wait

ran=0 missing=
for package in $packages; do
	version=${package%%:*} rest=${package#*:}
	if [ -s "$scratch/fetch-$version" ]; then
		missing="$version: $(tail -n 1 "$scratch/fetch-$version")"
		echo "$missing"
		continue
	fi
	library=$(find "$build/debs/nvidia-$version" -name libcuda.so.1)
	[ -n "$library" ] || fail "$version: the package has no libcuda.so.1"
	check_driver "driver $version" "$library"
	case $rest in
	ubuntu:*) check_unlisted "driver $version" "$library" ;;
	*) same "driver $version: symbols that are not in shim/entry_points.h" "" "$(cat "$scratch/unknown")" ;;
	esac
	# These sanitizers have a report for every crash, which is what some functions answer
	# nonsense with.
	case $version,${SANITIZER:-} in
	*,address | *,thread) ;;
	535,*) check_blind "driver $version" "$library" ;;
	450,* | 555,*) check_blind "driver $version" "$library" --init ;;
	esac
	case $rest in
	*,nvidia-*) check_nvml "NVML $version" "$(find "$build/debs/nvidia-$version" -name libnvidia-ml.so.1)" \
		"$(find "$build/debs/nvidia-$version" -name nvidia-smi -type f -perm -100 -print)" ;;
	esac
	ran=$((ran + 1))
done
installed=$(ldconfig -p 2>/dev/null | sed -n 's/.*libcuda\.so\.1 .*=> //p' | head -n 1)
for library in $installed ${SPILLWAY_TEST_DRIVER:-}; do
	check_driver "$library" "$library"
	[ ! -s "$scratch/unknown" ] || echo "$library: unknown to Spillway: $(tr '\n' ' ' <"$scratch/unknown")"
done
# SPILLWAY_TEST_NVML=/path/libnvidia-ml.so.1: that one too, without its nvidia-smi.
[ -z "${SPILLWAY_TEST_NVML:-}" ] || check_nvml "$SPILLWAY_TEST_NVML" "$SPILLWAY_TEST_NVML" "$build/tests/e2e/nvml"
if [ -n "$missing" ]; then
	echo "$ran driver libraries of NVIDIA's were checked; driver $missing"
	exit 77
fi

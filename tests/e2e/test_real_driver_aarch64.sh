#!/bin/sh
# SPDX-License-Identifier: MIT
# NVIDIA's own driver library for aarch64 behind the cross-built shim, under an emulator; no GPU is
# needed.
set -eu
# shellcheck source=tests/e2e/aarch64.sh
. tests/e2e/aarch64.sh
# shellcheck source=tests/e2e/real_driver.sh
. tests/e2e/real_driver.sh

folder=$build/debs/nvidia-arm64
reason=$(tools/dev/fetch-deb bookworm non-free arm64 "$folder" libcuda1 2>&1) || skip "$reason"
addresses=$built/addresses
entry=$built/entry
mkdir "$built"
there_build "$addresses" tests/e2e/proc_addresses.c -ldl
there_build "$entry" tests/e2e/entry.c -ldl
tables=$built/export_tables
there_build "$tables" tests/e2e/export_tables.c -ldl
check_driver "driver for aarch64" "$(find "$folder" -name libcuda.so.1)"

#!/bin/sh
# SPDX-License-Identifier: MIT
# The software GPU against its table of rooms. A table without core/base is not held.
set -eu
cd "$(dirname "$0")/../.."
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
tests/house/test_layers.py . "${BUILD:=build}" tests/softgpu/rooms
sed 's,^\(tests/softgpu  *\)core/base,\1,' tests/softgpu/rooms >"$at/rooms"
! tests/house/test_layers.py . "$BUILD" "$at/rooms" >"$at/said"
grep -q 'includes core/base/file_status.h: tests/softgpu may not use core/base' "$at/said"

#!/bin/sh
# SPDX-License-Identifier: MIT
# The findings of `spillway doctor` on this machine.
set -eu
. tests/gpu/needs.sh
need_gpu
"$BUILD/spillway" doctor

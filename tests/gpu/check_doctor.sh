#!/bin/sh
# SPDX-License-Identifier: MIT
# What `spillway doctor` finds on this machine.
set -eu
. tests/gpu/needs.sh
need_gpu
"$BUILD/spillway" doctor

#!/bin/sh
# What `spillway doctor` finds on this machine.
set -eu
. tests/gpu/needs.sh
need_gpu
"$BUILD/spillway" doctor

#!/bin/sh
# Puts the probe's questions to the real driver and keeps the answers as probe.txt and probe.json in
# build/gpu/.
set -eu
. tests/gpu/needs.sh
need_gpu
"$BUILD/gpu/probe" >"$BUILD/gpu/probe.txt" || { cat "$BUILD/gpu/probe.txt"; exit 1; }
"$BUILD/gpu/probe" --json >"$BUILD/gpu/probe.json"

#!/bin/sh
# spillway doctor: broken drivers, sources of values, programs that cannot be shimmed.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

# It survives a driver that does not; with that one, the machine's own makes no difference.
SPILLWAY_DRIVER=$build/tests/e2e/crashing_driver.so
export SPILLWAY_DRIVER
expect 1 "$spillway" doctor
says "$out" "^ok  shim: $tree/lib/libspillway.so"
says "$out" '^ok  driver: .*crashing_driver.so.*CUDA 12\.4, found by SPILLWAY_DRIVER$'
says "$out" '^no  driver: cuInit died of signal 6'
says "$out" "^ok  state directory: $SPILLWAY_STATE_DIR"
says "$out" '^ok  any gpu: memory_limit = unlimited \(built-in\)$'
expect 1 env SPILLWAY_DRIVER="$build/tests/e2e/empty.so" "$spillway" doctor
says "$out" '^no  driver: .*empty.so: has no cuDriverGetVersion$'
SPILLWAY_DRIVER=/nonexistent "$spillway" doctor >"$out"
says "$out" '^no  driver: SPILLWAY_DRIVER = /nonexistent: expected the absolute path'
mkdir "$TMPDIR/search"
ln -s "$tree/lib/libspillway.so" "$TMPDIR/search/libcuda.so.1"
SPILLWAY_DRIVER='' LD_LIBRARY_PATH=$TMPDIR/search "$spillway" doctor >"$out"
says_not "$out" 'found by LD_LIBRARY_PATH'
ln -sf "$build/tests/e2e/crashing_driver.so" "$TMPDIR/search/libcuda.so.1"
expect 1 env SPILLWAY_DRIVER= LD_LIBRARY_PATH="/nonexistent:$TMPDIR/search" "$spillway" doctor
says "$out" '^ok  driver: .*/search/libcuda.so.1 \(crashing_driver.so\), CUDA 12\.4, found by LD_LIBRARY_PATH$'

# Values with their sources; a bad configuration.
printf '[gpu]\nmemory_limit = 8GiB\n' >"$TMPDIR/job.ini"
expect 1 env SPILLWAY_CONFIG="$TMPDIR/job.ini" SPILLWAY_SHARE=30 "$spillway" doctor
says "$out" '^ok  any gpu: memory_limit = 8GiB \(.*/job\.ini:2\)$'
says "$out" '^ok  any gpu: share = 30 \(environment SPILLWAY_SHARE\)$'
echo 'nonsense' >"$TMPDIR/job.ini"
expect 1 env SPILLWAY_CONFIG="$TMPDIR/job.ini" "$spillway" doctor
says "$out" '^no  configuration: .*/job\.ini:1'
expect 1 env SPILLWAY_DISABLE=1 "$spillway" doctor
says "$out" '^no  configuration: the environment disables Spillway$'
expect 1 env SPILLWAY_STATE_DIR="$TMPDIR/job.ini" "$spillway" doctor
says "$out" '^no  state directory: '
expect 1 env SPILLWAY_STATE_DIR=/proc/spillway "$spillway" doctor
says "$out" '^no  state directory: /proc/spillway: cannot be made'
expect 1 env SPILLWAY_STATE_DIR="$TMPDIR/new" "$spillway" doctor
says "$out" "^ok  state directory: $TMPDIR/new$"

# What cannot take effect.
expect 1 env SPILLWAY_SHARE_POLICY=weight SPILLWAY_MEMORY_LIMIT=1M \
	SPILLWAY_MEMORY_LIMIT_MAX=1G "$spillway" doctor
says "$out" '^no  any gpu: share_policy = weight \(.*\): not in effect yet$'
says "$out" '^no  any gpu: memory_limit_max = 1GiB \(.*\): not in effect yet$'
expect 0 "$spillway" run --name far --limit-gpu 5 --share 50 "$fake_job" -1
expect 1 "$spillway" doctor
says "$out" '^no  configuration: .*/far\.override\.ini: \[gpu 5\]: there is no such GPU'
expect 0 "$spillway" run --name far --limit-gpu 0 --share 50 "$fake_job" -1
expect 1 "$spillway" doctor
says_not "$out" 'there is no such GPU'
expect 1 "$spillway" doctor --clean

# Programs.
expect 1 "$spillway" doctor /bin/sh -c 'any --argument'
says "$out" '^ok  program: .* can be run under the shim$'
printf '#!/usr/bin/env sh\n' >"$TMPDIR/script"
chmod +x "$TMPDIR/script"
expect 1 "$spillway" doctor "$TMPDIR/script"
says "$out" '^ok  program: .*/sh can be run under the shim$'
cp /bin/true "$TMPDIR/privileged"
chmod u+s "$TMPDIR/privileged"
expect 1 "$spillway" doctor "$TMPDIR/privileged"
says "$out" '^no  program: .* is set-uid'
head -c 100 /bin/true >"$TMPDIR/damaged"
chmod +x "$TMPDIR/damaged"
expect 1 "$spillway" doctor "$TMPDIR/damaged"
says "$out" '^no  program: .* is a damaged ELF file$'
expect 1 "$spillway" doctor no-such-program
says "$out" '^no  program: no-such-program: No such file'
if echo 'int main(void) { return 0; }' | ${CC:-cc} -static -x c -o "$TMPDIR/static" - 2>/dev/null; then
	expect 1 "$spillway" doctor "$TMPDIR/static"
	says "$out" '^no  program: .* is statically linked'
fi

# What ended jobs left is counted, and removed when asked.
start_job gone
kill "$pid"
wait "$pid"
expect 1 "$spillway" doctor
says "$out" '^ok  jobs: 1, of which 1 ended'
expect 1 "$spillway" doctor --clean
says "$out" '^ok  ended job gone: removed$'
[ ! -e "$SPILLWAY_STATE_DIR/gone.segment" ] || fail 'the segment of an ended job is still there'
finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# Jobs start at once and want more than there is. None is refused, although none knows the memory of
# the other jobs yet. Judged by how they end, and by the books of the software GPU.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SOFTGPU_MEMORY=96M SOFTGPU_CONTEXT_MEMORY=8M

# A job makes its context at the moment in which another has filled the GPU, which has no peer
# record yet.
mkfifo "$scratch/in"
"$spillway" run --softgpu --quiet --name new "$build/tests/e2e/guest" init "wait:$scratch/new.here" context alloc:4:2 free \
	<"$scratch/in" >"$scratch/new" 2>&1 &
new=$!
exec 7>"$scratch/in"
until_true $patience test -e "$scratch/new.here" || fail "new: not ready: $(cat "$scratch/new")"
"$spillway" run --softgpu --quiet --name full "$build/tests/e2e/allocate" --mib 8 --count 11 --ready "$scratch/full.here" \
	--until "$scratch/stop" >"$scratch/full" 2>&1 &
full=$!
until [ -e "$scratch/full.here" ]; do :; done
echo >&7
wait $new || fail "new is refused: $(cat "$scratch/new"); $("$softgpu/softgpu-truth")"
has new "$(cat "$scratch/new")" 'context=0'
[ "$(held_by "$(pid_of full)")" -lt $((96 * mib)) ] || fail "full has given nothing: $("$softgpu/softgpu-truth")"
touch "$scratch/stop"
wait $full || fail "full: $(cat "$scratch/full")"
has full "$(cat "$scratch/full")" 'bad=0'

# Three of 60 %.
rm "$scratch/stop"
jobs=""
for name in one two three; do
	"$spillway" run --softgpu --quiet --name $name "$build/tests/e2e/allocate" --mib 4 --count 14 --ready "$scratch/$name.here" \
		--until "$scratch/stop" >"$scratch/$name" 2>&1 &
	jobs="$jobs $!"
done
are_there() { [ -e "$scratch/one.here" ] && [ -e "$scratch/two.here" ] && [ -e "$scratch/three.here" ]; }
until_true $patience are_there || fail "one has not got its memory: $(cat "$scratch/one" "$scratch/two" "$scratch/three")"
touch "$scratch/stop"
for job in $jobs; do
	wait "$job" || fail "one is refused: $(cat "$scratch/one" "$scratch/two" "$scratch/three")"
done
for name in one two three; do has $name "$(cat "$scratch/$name")" 'bad=0'; done

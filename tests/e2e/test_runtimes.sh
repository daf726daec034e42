#!/bin/sh
# SPDX-License-Identifier: MIT
# Runtime libraries of different CUDA versions work in one process, each with the functions of its
# time. They use cuCtxCreate v2, v3 and v4, captures of both forms, three ways to make a graph
# executable, and streams of both kinds. The stand-in for libcudart 13 is among them. One allocates
# memory that another frees. The books are those of the driver, while it runs and at the end.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SOFTGPU_CONTEXT_MEMORY=2M
mib=1048576
rounds=5

runtimes() { # runtimes VERSION-STREAMS...: the files
	for runtime; do echo "$build/tests/e2e/runtime-$runtime.so"; done
}
mkfifo "$scratch/go"
number=0
# DRIVER RUNTIME...: the last that has all they ask for, and older ones.
for set in "13000 11080-0 13000-0" "13000 13000-2 11080-0 12040-2" "13000 11080-0 11080-2 12040-2 13000-0 13000-2" \
	"12040 11080-2 12040-2" "11080 11080-0 11080-2"; do
	number=$((number + 1)) name=runtimes-$number
	SOFTGPU_DRIVER_VERSION=${set%% *}
	export SOFTGPU_DRIVER_VERSION
	cudart=
	[ "$SOFTGPU_DRIVER_VERSION" != 13000 ] || cudart=$softgpu/libcudart.so.13
	# shellcheck disable=SC2046,SC2086 # lists
	set -- $(runtimes ${set#* })
	same "$set: alone" "counted $(($# * rounds * 3))
ok $#" "$(on_softgpu "$build/tests/e2e/runtimes" ${cudart:+--cudart "$cudart"} "$@" </dev/null 2>&1)"

	rm -f "$scratch/out"
	"$spillway" run --softgpu --quiet --name $name --memory 512MiB "$build/tests/e2e/runtimes" ${cudart:+--cudart "$cudart"} "$@" \
		<"$scratch/go" >"$scratch/out" 2>&1 &
	exec 3>"$scratch/go"
	until_true $patience grep -q counted "$scratch/out" || fail "$set: $(cat "$scratch/out")"
	# Each holds 4 MiB in a context of 2 MiB, and a counter: all of them in a slab of 2 MiB.
	json=$("$spillway" stat $name --json)
	used=$(printf '%s\n' "$json" | sed 's/.*"device_used":\([0-9]*\).*/\1/')
	held_aside() { [ $(($(device_bytes) - $("$spillway" stat $name --json | sed 's/.*"device_pool":\([0-9]*\).*/\1/'))) = "$1" ]; }
	until_true $patience held_aside $((($# * (4 + 2) + 2) * mib)) || fail "$set: held, says the device: $(device_bytes); $("$spillway" stat $name --json)"
	held=$(device_bytes)
	if [ "$used" -lt $(($# * (4 * mib + 512))) ] || [ "$used" -gt "$held" ]; then fail "$set: used $used, held $held"; fi
	has "$set: all on the device" "$json" '"spills":0,'
	exec 3>&-
	wait $! || fail "$set: exit status $?: $(cat "$scratch/out")"
	same "$set: results" "counted $(($# * rounds * 3))
ok $#" "$(cat "$scratch/out")"
	json=$("$spillway" stat $name --json)
	has "$set: launches, captured ones too" "$json" "\"launches\":$(($# * rounds * 2)),"
	has "$set: graph launches" "$json" "\"graph_launches\":$(($# * rounds * 2)),"
	case $json in *'"device_used":'[1-9]*) fail "$set: not all given back: $json" ;; esac
	# The kernel drops the locks of a dead process late where another one reads its /proc files.
	until_true $patience device_within 0 || fail "$set: not given back, says the device: $(device_bytes)"
done

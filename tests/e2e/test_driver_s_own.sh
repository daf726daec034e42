#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory that the driver takes for itself counts within a limit, is never refused, and is shown
# apart. Bytes granted stay within the limit less the driver's own, and at 0 where that is more.
set -eu
SOFTGPU_CONTEXT_MEMORY=8M
export SOFTGPU_CONTEXT_MEMORY
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
allocate=$build/tests/e2e/allocate

# is_settled: the books are those of the driver, and what is granted fits; sets $used
is_settled() {
	used=$(counter "$name" device_used)
	[ "$used" -eq "$(device_bytes)" ] && [ $((used - own)) -le "$most" ]
}

# holds NAME LIMIT_MIB OWN_MIB PROCESSES: each process has a context, and wants more than the limit
holds() {
	name=$1 limit=$(($2 * mib)) own=$(($3 * mib)) count=$4 pids=
	export SPILLWAY_JOB="$name"
	i=0
	while [ $i -lt "$count" ]; do
		i=$((i + 1))
		"$spillway" run --softgpu --name "$name" ${JOIN:-} --memory "$2MiB" "$allocate" --mib 8 --count 12 \
			--hold-ms 600000 --ready "$scratch/$name-$i" >"$scratch/$name.out.$i" 2>"$scratch/$name.err.$i" &
		pids="$pids $!"
		JOIN=--join
		until_true $patience test -e "$scratch/$name-$i" || fail "$name: not ready: $(cat "$scratch/$name.err.$i")"
	done
	JOIN=
	same "$name: the driver's own" "$own" "$(counter "$name" driver_used)"
	most=$((limit > own ? limit - own : 0))
	# Memory makes way for the own memory of a process that joined: that takes its time.
	until_true $patience is_settled || true
	granted=$((used - own))
	same "$name: books and truth" "$used" "$(device_bytes)"
	[ "$granted" -le "$most" ] || fail "$name: granted $granted of $most bytes"
	[ "$most" -eq 0 ] || [ "$granted" -gt 0 ] || fail "$name: nothing was granted of $most bytes"
	"$spillway" stat "$name" | grep -qE "^gpu 0: $((used / mib))(\.[0-9]*)? MiB used, of which $3(\.[0-9]*)? MiB are the driver's own\$" ||
		fail "$name: stat does not show the driver's own: $("$spillway" stat "$name")"
	for pid in $pids; do kill "$pid"; done
	for pid in $pids; do wait "$pid" || true; done
	same "$name: its peak" "$own" "$(counter "$name" driver_peak)"
	cat "$scratch/$name".err.* >"$scratch/err"
	grep -qE "^spillway: $name: GPU at most .*, of which $3(\.[0-9]*)? MiB are the driver's own" "$scratch/err" ||
		fail "$name: the summary does not show the driver's own: $(cat "$scratch/err")"
	said=$(grep -c "(limit .*, which the driver's own may exceed)" "$scratch/err") || true
	same "$name: a peak above the limit is explained" "$(($(counter "$name" device_peak) > limit))" "$((said > 0))"
}

holds one 64 8 1
holds joined 64 16 2
holds nothing 0 8 1

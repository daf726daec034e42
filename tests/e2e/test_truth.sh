#!/bin/sh
# SPDX-License-Identifier: MIT
# stat's figures for a job are those that the software GPU itself counted. Launches, of graphs too,
# and memory, moved memory included, agree to the number. The GPU time of its kernels agrees as
# closely as events measure it. A figure that was not measured is not shown. Threads are the
# kernel's count, contexts the program's.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/pace.sh
. tests/e2e/pace.sh
export SOFTGPU_CONTEXT_MEMORY=8M
pid=
driven=

# truth COLUMN: of the only process
truth() {
	"$softgpu/softgpu-truth" | awk -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i; next }
		$1 == "0" { print $column }'
}
# at_rest JOB: its kernels have run, and a look later it is still so
at_rest() {
	[ "$(truth launches)" -ge 150 ] || return 1
	before=$(truth busy_ns)/$(counter "$1" busy_ns)/$(counter "$1" launches)
	sleep 0.5
	[ "$before" = "$(truth busy_ns)/$(counter "$1" busy_ns)/$(counter "$1" launches)" ]
}

# A burst of kernels, paced so that they are measured, and a long pause.
paced() {
	LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu SPILLWAY_JOB=paced SPILLWAY_SHARE=95 "$load" --kernel-us 2000 --asleep \
		--burst-ms 300 --pause-ms 60000 --seconds 60 >"$scratch/out" 2>&1 &
	pid=$!
	until_true $patience at_rest paced || fail "no rest: $(truth launches) launches; $(cat "$scratch/out")"
	same "launches" "$(truth launches)" "$(counter paced launches)"
	same "device memory" "$(truth physical_bytes)" $(($(counter paced device_used) + $(counter paced device_pool)))
	same "host memory" "$(truth host_bytes)" $(($(counter paced host_used) + $(counter paced host_pool)))
	busy=$(counter paced busy_ns) really=$(truth busy_ns)
	kill "$pid"
	wait "$pid" 2>/dev/null || true
	# Of what was launched before it was known how long kernels are a part is an estimate.
	awk -v busy="$busy" -v really="$really" 'BEGIN { exit !(really > 2.5e8 && busy > really * 0.75 && busy < really * 1.25) }' ||
		off "busy for $busy ns, expected $really"
}
undisturbed paced

# A job that is not paced is not measured: unknown is null, not zero. Memory beyond the limit is on
# the host.
LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu SPILLWAY_JOB=spills SPILLWAY_MEMORY=40MiB "$build/tests/e2e/allocate" --mib 8 --count 8 \
	--hold-ms 600000 --ready "$scratch/ready" >"$scratch/out" 2>&1 &
pid=$!
until_true $patience test -e "$scratch/ready" || fail "not ready: $(cat "$scratch/out")"
agrees() {
	[ "$(truth physical_bytes)" = $(($(counter spills device_used) + $(counter spills device_pool))) ] &&
		[ "$(truth host_bytes)" = $(($(counter spills host_used) + $(counter spills host_pool))) ]
}
# spare chunks come and go by themselves
until_true $patience agrees || fail "$(truth physical_bytes) and $(truth host_bytes) bytes; shown: $("$spillway" stat spills)"
[ "$(truth host_bytes)" -ge $((32 * 1048576)) ] || fail "nothing is on the host"
same "launches" "$(truth launches)" "$(counter spills launches)"
same "GPU time that nobody measured" null "$(counter spills busy_ns)"
same "share held that nobody measured" null "$(counter spills share_held)"
same "limit that there is" 41943040 "$(counter spills limit_set)"
kill "$pid"
wait "$pid" 2>/dev/null || true
pid=

# Graphs: the GPU counts the kernels in them, Spillway how often the program launched one.
ini=$scratch/graphs.ini
limit_file "$ini" $((32 * mib))
start_driven graphs "$ini"
wants 0 alloc a 4096
wants 0 alloc b 4096
wants 0 alloc c 4096
wants 0 graph a b c
wants 0 replay 7
wants 0 mix a b 1 5
wants 0 sync
same "graph launches" 7 "$(counter graphs graph_launches)"
same "launches by the program, those that were captured too" $((3 + 5)) "$(counter graphs launches)"
same "kernels" $((7 * 3 + 5)) "$(truth launches)"

# What was spilled and moved, by the books of the GPU and of the host; pools come and go by
# themselves.
for name in a b c; do wants 0 free $name; done
# split BYTES MIN_ON_HOST MAX_ON_HOST: what the program has more than at first, by the books; what
# is on the host is what went there
split() {
	gpu=$(($(truth physical_bytes) - $(counter graphs device_pool) - gpu_first))
	host=$(($(truth host_bytes) - $(counter graphs host_pool) - host_first))
	went=$(($(counter graphs spilled_bytes) + $(counter graphs demoted_bytes) - $(counter graphs promoted_bytes)))
	[ $((gpu + host)) = "$1" ] && [ "$host" = "$went" ] && [ "$host" -ge "$2" ] && [ "$host" -le "$3" ]
}
seen() { echo "GPU $gpu, host $host, went there $went: $("$spillway" stat graphs)"; }
gpu_first=0 host_first=0
rests() {
	split 0 0 0 || gpu_first=$((gpu_first + gpu)) host_first=$((host_first + host))
	sleep 0.3
	split 0 0 0
}
until_true $patience rests || fail "no rest: $(seen)"
wants 0 alloc a 24576
wants 0 alloc b 16384
wants 0 fill a 1
wants 0 fill b 2
spilled=$(counter graphs spilled_bytes)
[ "$spilled" -gt 0 ] || fail "nothing was spilled"
until_true $patience split $((40 * mib)) $((8 * mib)) $((24 * mib)) || fail "spilled: $(seen)"
"$spillway" pause --evict --timeout $patience graphs >"$scratch/out" 2>&1 || fail "evict: $(cat "$scratch/out")"
until_true $patience split $((40 * mib)) $((40 * mib)) $((40 * mib)) || fail "evicted: $(seen)"
limit_file "$ini" $((64 * mib))
"$spillway" resume --timeout $patience graphs >"$scratch/out" 2>&1 || fail "resume: $(cat "$scratch/out")"
until_true $patience split $((40 * mib)) 0 0 || fail "back: $(seen)"
same "bytes spilled" "$spilled" "$(counter graphs spilled_bytes)"
[ "$(counter graphs demoted_bytes)" -gt 0 ] || fail "nothing was moved"
wants 0 check a 1
wants 0 check b 2

# Of the process itself.
of_process() { # of_process NAME
	"$spillway" stat graphs --json | sed "s/.*\"processes\":\[{\([^}]*\)}.*/,\1,/; s/.*,\"$1\":\([^,]*\),.*/\1/"
}
of_kernel() { sed -n 's/^Threads:[^0-9]*//p' "/proc/$(of_process pid)/status"; }
process_is() { # process_is THREADS CONTEXTS
	[ "$(of_process threads)/$(of_process contexts)" = "$1/$2" ]
}
threads=$(of_kernel)
until_true $patience process_is "$threads" 1 || fail "$threads threads, 1 context: $("$spillway" stat graphs)"
for word in thread thread thread context; do wants 0 $word; done
same "threads, as the kernel has it" $((threads + 3)) "$(of_kernel)"
until_true $patience process_is $((threads + 3)) 2 || fail "3 threads and a context more: $("$spillway" stat graphs)"
"$spillway" stat graphs | grep -Eq "^ *$(of_process pid) +live .* $((threads + 3)) +2 +.*driven" || fail "$("$spillway" stat graphs)"
end_driven

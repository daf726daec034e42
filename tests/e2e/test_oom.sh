#!/bin/sh
# SPDX-License-Identifier: MIT
# Out of memory is CUDA_ERROR_OUT_OF_MEMORY, and the program works on afterwards as before. The
# driver's answers about memory in the arena are the same on either tier. The host's pages come back
# to the system.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
driven=
ini=$scratch/oom.ini
out_of_memory=2

# Neither side has room: the limit and host_memory.
limit_file "$ini" $((16 * mib)) "host_memory = 16MiB"
start_driven full "$ini"
wants 0 alloc a 20480
wants 0 alloc b 8192
wants 0 fill a 1
wants 0 fill b 2
for how in alloc pitch async create; do wants $out_of_memory alloc c 8192 $how; done
wants $out_of_memory alloc c 1048576
[ "$(counter full refusals)" -ge 5 ] || fail "refusals: $(counter full refusals)"
[ "$(counter full host_used)" -le $((16 * mib)) ] || fail "host_memory is broken: $(counter full host_used)"
wants 0 check a 1
wants 0 check b 2
wants 0 alloc c 2048
wants 0 fill c 3
wants 0 mix a b 1 5
wants 0 sync
wants 0 check b 2
wants 0 check c 3
# What is freed can be had again.
wants 0 free b
wants 0 alloc d 8192
wants 0 fill d 4
wants 0 check d 4
wants 0 check c 3
# A larger host_memory counts at once.
limit_file "$ini" $((16 * mib)) "host_memory = 64MiB"
allocates() { tell alloc e 32768; [ "$answer" = 0 ]; }
until_true $patience allocates || fail "host_memory is raised, but 32 MiB cannot be had: $answer"
end_driven
same "all is given back" "0 0" "$(counter full device_used) $(counter full host_used)"

# spill = off; and spill_after: refused so often first.
limit_file "$ini" $((16 * mib)) "spill = off"
start_driven off "$ini"
wants 0 alloc a 12288
wants $out_of_memory alloc b 8192
wants 0 fill a 1
wants 0 check a 1
wants 0 alloc c 2048
end_driven
same "spill = off" 0 "$(counter off host_peak)"
limit_file "$ini" $((16 * mib)) "spill_after = 2"
start_driven after "$ini"
wants 0 alloc a 12288
wants $out_of_memory alloc b 8192
wants $out_of_memory alloc b 8192
wants 0 alloc b 8192
wants 0 fill b 5
wants 0 check b 5
end_driven

# By default no program is; what PyTorch makes of it is in tests/clients/frameworks/test_torch.sh.
limit_file "$ini" $((16 * mib))
start_driven plain "$ini"
wants 0 alloc a 12288
wants 0 alloc b 8192
wants 0 alloc c 8192
end_driven
same "by default: refused" 0 "$(counter plain refusals)"

# Host pages of freed and of promoted memory leave the process.
limit_file "$ini" $((4 * mib))
start_driven pages "$ini"
tell resident
before=$answer
wants 0 alloc a 98304
wants 0 fill a 1
wants 0 sync
tell resident
[ $((answer - before)) -ge $((64 * mib)) ] || echo "the software GPU's memory of the host is not in VmRSS"
[ "$(truth host_bytes)" -ge $((90 * mib)) ] || fail "only $(truth host_bytes) bytes on the host"
host_within() { [ "$(truth host_bytes)" -le "$1" ]; }
resident_within() { tell resident; [ $((answer - before)) -le "$1" ]; }
wants 0 free a
until_true $patience host_within $((8 * mib)) || fail "freed, but $(truth host_bytes) bytes stay on the host"
# (A sanitizer keeps its notes of what was freed.)
[ -n "${SANITIZER:-}" ] || until_true $patience resident_within $((40 * mib)) ||
	fail "freed, but the process has grown by $((answer - before)) bytes"
wants 0 alloc a 98304
wants 0 fill a 1
limit_file "$ini" $((256 * mib))
until_true $patience host_within $((8 * mib)) || fail "promoted, but $(truth host_bytes) bytes stay on the host"
wants 0 check a 1
end_driven

# What the program is told: all of it on the device, on both tiers, on the host.
limit_file "$ini" $((64 * mib))
start_driven told "$ini"
wants 0 alloc a 24576
wants 0 alloc s 100
wants 0 fill a 8
wants 0 fill s 9
for limit in 64 10 2 64; do
	limit_file "$ini" $((limit * mib))
	until_true $patience device_within $((limit * mib)) || fail "$limit MiB: $(device_bytes) bytes on the device"
	until_true $patience counter_is told limit_set $((limit * mib)) || fail "the limit of $limit MiB is not seen"
	for kib in 0 1 2047 2048 4097 12289 24575; do
		wants "0 0 $((24 * mib)) type=2 device=0 host=0 managed=0 context=1 errors 0 0 1 0 0" describe a $kib
	done
	wants "0 0 102400 type=2 device=0 host=0 managed=0 context=1 errors 0 0 1 0 0" describe s 99
	tell info
	same "$limit MiB: total" $((limit * mib)) "${answer#* }"
	[ "${answer% *}" -le $((limit * mib)) ] || fail "$limit MiB: more is free than there is: $answer"
done
limit_file "$ini" $((10 * mib)) "host_memory = 100MiB" "reported_memory = limit+host"
report_total() { tell info; [ "${answer#* }" = "$1" ]; }
until_true $patience report_total $((110 * mib)) || fail "limit+host: told of '$answer'"
wants 0 check a 8
wants 0 check s 9
end_driven

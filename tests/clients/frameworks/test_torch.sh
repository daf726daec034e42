#!/bin/sh
# SPDX-License-Identifier: MIT
# PyTorch from PyPI, unmodified, takes more memory than its limit, with its allocator's settings: no
# memory is refused, and its data is there. A count in spill_after refuses, and then its cache is
# given back. The cost of a refusal where PyTorch does not ask again is shown, too.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh
member "PyTorch, its allocators" "$(version torch)" "spills with each allocator, in a captured graph"

# spills NAME SETTINGS REFUSALS FAILURES WHAT...: something was on the host, spilled or moved. The
# refusals are those of `full` and its like, which show how often PyTorch asks. PyTorch's bound on
# itself (`fraction`) is a part of the total, and an expandable segment has addresses for an eighth
# more than the total: the total they are told has the host's memory in it.
spills() {
	job=$1 settings=$2 refusals=$3 failures=$4
	shift 4
	case "$settings $*" in *fraction* | expandable*) reported=limit+host ;; *) reported=auto ;; esac
	said=$(PYTORCH_ALLOC_CONF=$settings limited "$job" 24MiB --reported-memory $reported --host-memory 1GiB \
		python3 $here/torch_spills.py 24 "$@") || fail "$job ($settings): $said"
	same "$job: failures of the allocator" "$failures" "$(field ooms "$said")"
	same "$job: refusals" "$refusals" "$(counter "$job" refusals)"
	[ "$(counter "$job" host_peak)" -gt 0 ] || fail "$job has had nothing on the host: $said"
}
spills plain "" 5 3 six reuse threads pool full full_pool full_graph fraction graph
spills split max_split_size_mb:20,garbage_collection_threshold:0.6 2 1 six reuse threads full fraction graph
spills async backend:cudaMallocAsync 2 0 six reuse threads full graph
spills expandable expandable_segments:True 5 3 six reuse threads pool full full_pool full_graph graph

# Under limits, pauses and evictions that change at random, with half of the GPU's time
said=$(OPTIONS="--softgpu --share 50" tests/clients/schedule.py changing $((48 << 10)) \
	python3 $here/torch_spills.py 24 six reuse threads pool graph 2>&1) || fail "changing: $said"
printf '%s\n' "$said" | grep 'seed='
same "changing: failures of the allocator" 0 "$(field ooms "$said")"
same "changing: refusals" 0 "$(counter changing refusals)"

# One refusal, by a count: the cache is given back, so that nothing lies on the host.
said=$(SPILLWAY_SPILL_AFTER=1 limited once 24MiB python3 $here/torch_spills.py 24 reuse) || fail "once: $said"
same "once: the allocator's retries and failures" "1 0" "$(field retries "$said") $(field ooms "$said")"
same "once: refused, bytes on the host" "1 0" "$(counter once refusals) $(counter once host_peak)"

# Why `auto` refuses nothing: PyTorch's bound on itself makes the driver's first refusal its last.
if said=$(SPILLWAY_SPILL_AFTER=1 limited last 52MiB --reported-memory limit+host \
	python3 $here/torch_spills.py 24 fraction); then
	fail "PyTorch gets over a refusal behind its own bound: $said"
fi
has "one refusal behind PyTorch's own bound" "$said" "torch.OutOfMemoryError"
# In a capture it does not ask again, so a count does not count there.
said=$(SPILLWAY_SPILL_AFTER=1 limited captured 32MiB python3 $here/torch_spills.py 32 graph) ||
	fail "captured: $said"
same "captured: refused" 0 "$(counter captured refusals)"
judged "same bits, two cases with \`--reported-memory limit+host\`"

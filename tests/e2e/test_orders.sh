#!/bin/sh
# SPDX-License-Identifier: MIT
# The queries of other hardware about memory work on memory that moves, where drivers refuse them or
# answer by the mapping: SYNC_MEMOPS is kept by the shim, BUFFER_ID is the allocation's. Some forms
# of calls take memory and are unknown to the shim. They are kept from the program, because the
# driver would get handles that are not its own.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
orders=$build/tests/e2e/orders

"$spillway" run --softgpu --quiet --memory 64MiB "$orders" || fail "on the device"
"$spillway" run --softgpu --quiet --memory 4MiB "$orders" host 2>"$scratch/err" || fail "of memory that is on the host: $(cat "$scratch/err")"

export SOFTGPU_TRAITS=newer-forms
same "of the driver" "cuMulticastBindMem yes 0 0 set
cuMulticastBindAddr yes 0 0 set
cuMemMap yes 0 0 set
cuMemcpyAsync yes 0 0 set" "$(on_softgpu "$orders" forms)"
same "under the shim" "cuMulticastBindMem no 2 500 kept
cuMulticastBindAddr no 2 500 kept
cuMemMap no 2 500 kept
cuMemcpyAsync yes 0 0 set" "$("$spillway" run --softgpu --name forms "$orders" forms 2>"$scratch/err")"
for name in cuMulticastBindMem cuMulticastBindAddr cuMemMap; do
	same "$name is named once" 1 "$(grep -c "($name): the driver has a newer form" "$scratch/err")"
done

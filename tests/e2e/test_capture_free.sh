#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory is freed while another thread captures. Spilled memory answers as the driver does for its
# own, and keeps every capture that the driver would keep. It stays charged until it is really gone,
# and it goes.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
program=$build/tests/e2e/capture_free

alone=$(on_softgpu "$program")
has "alone: another thread's relaxed capture" "$alone" "relaxed: free=0 known=500 end=0"
same "on the device" "$alone" "$("$spillway" run --softgpu --quiet --name device "$program")"
for spill in vmm managed pinned; do
	printf '[gpu]\nmemory = 1MiB\nspill = %s\n' $spill >"$scratch/$spill.ini"
	same "spilled, $spill" "$alone" \
		"$("$spillway" run --softgpu --quiet --name "$spill" --config "$scratch/$spill.ini" "$program")"
	json=$("$spillway" stat "$spill" --json)
	has "$spill: given back" "$json" '"host_used":0'
	case $json in *'"spilled_bytes":0'*) fail "$spill: nothing spilled: $json" ;; esac
done

# Charged while it is there.
host_used() { "$spillway" stat held --json | sed 's/,"processes":.*//; s/.*"host_used":\([0-9]*\).*/\1/'; }
host_pool() { "$spillway" stat held --json | sed 's/,"processes":.*//; s/.*"host_pool":\([0-9]*\).*/\1/'; }
mkfifo "$scratch/to" "$scratch/from"
"$spillway" run --softgpu --quiet --name held --memory 1MiB "$program" held <"$scratch/to" >"$scratch/from" &
exec 3>"$scratch/to" 4<"$scratch/from"
until_line() { while read -r line <&4; do [ "$line" != "$1" ] || return 0; done; fail "no line '$1'"; }
until_line captured
same "charged while it cannot go" 8388608 "$(($(host_used) - $(host_pool)))"
echo >&3
until_line waited
nothing_used() { [ "$(host_used)" = 0 ]; }
until_true $patience nothing_used || fail "charged long after the wait: $(host_used)"
echo >&3
while read -r line <&4; do :; done
wait $! || fail "held: exit status $?"

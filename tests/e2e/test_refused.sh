#!/bin/sh
# SPDX-License-Identifier: MIT
# An object that the driver refuses to destroy stays unchanged, with all its memory on either tier.
# A destroyed object leaves nothing.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
program=$build/tests/e2e/refused

alone=$(on_softgpu "$program")
has "alone: refused as documented" "$alone" "the device's own context: answered 201, then copies 0, 0 words differ"
has "alone: freed once" "$alone" "free: 0, and again: 1"
same "unlimited" "$alone" "$("$spillway" run --softgpu --quiet --name unlimited "$program")"
for spill in vmm managed pinned; do
	limit_file "$scratch/$spill.ini" $((16 * mib)) "spill = $spill"
	same "limited, $spill" "$alone" \
		"$("$spillway" run --softgpu --quiet --name "$spill" --config "$scratch/$spill.ini" "$program")"
	json=$("$spillway" stat "$spill" --json)
	case $json in *'"spilled_bytes":0'*) fail "$spill: nothing spilled: $json" ;; esac
done

# spilled: bytes of the job that are on the host and in use, by one reading: what was freed is given
# back meanwhile
spilled() {
	"$spillway" stat held --json | sed 's/,"processes":.*//' | tr ',{' '\n' |
		awk -F: '!seen[$1]++ { value[$1] = $2 } END { print value["\"host_used\""] - value["\"host_pool\""] }'
}
mkfifo "$scratch/to" "$scratch/from"
"$spillway" run --softgpu --quiet --name held --memory 16MiB "$program" hold <"$scratch/to" >"$scratch/from" &
exec 3>"$scratch/to" 4<"$scratch/from"
until_line() { while read -r line <&4; do [ "$line" != "$1" ] || return 0; done; fail "no line '$1'"; }
until_line "another context"
[ "$(spilled)" -ge $((20 * mib)) ] || fail "another context: hardly anything is spilled: $(spilled)"
echo >&3
until_line destroyed
# What was about to move meanwhile has memory there for a moment.
nothing_is_spilled() { [ "$(spilled)" = 0 ]; }
until_true $patience nothing_is_spilled || fail "what was spilled in a context has not gone with it: $(spilled)"
echo >&3
until_line reset
same "after a reset nothing is on the host" 0 "$(counter held host_used)"
echo >&3
while read -r line <&4; do :; done
wait $! || fail "held: exit status $?"

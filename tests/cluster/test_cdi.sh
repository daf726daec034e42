#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway cdi and podman: a container that asks for a device has its limits, with any program. Root
# on the node sees it and changes it. Two containers of one name are two jobs.
set -eu
# shellcheck source=tests/cluster/podman.sh
. tests/cluster/podman.sh
mib=1048576
memory=$((2048 * mib)) # the software GPU's

"$spillway" cdi --device small=64MiB:50 --device half=50% >/etc/cdi/spillway.json || fail "spillway cdi"
python3 -m json.tool /etc/cdi/spillway.json >/dev/null
container one --device spillway.dev/gpu=half -e SPILLWAY_JOB=twin
container two --device spillway.dev/gpu=small -e SPILLWAY_JOB=twin
takes first one 2 env
# shellcheck disable=SC2086 # words
takes second two 10 env -i $machine
until_true $patience is_on_device $(((16 + 64) * mib)) || fail "on the device: $(device_bytes) bytes"

# Both are there, each by a name of its own.
until_true $patience sh -c "[ \"\$('$spillway' stat | grep -c '^[^ ]*twin@')\" = 2 ]" || fail "stat: $("$spillway" stat)"
limit_of() { counter "$1" limit_set; }
for name in $("$spillway" stat | sed -n 's/^\([^ ]*twin@[0-9a-f]*\) .*/\1/p'); do
	case $(limit_of "$name") in
	$((memory / 2))) half=$name ;;
	$((64 * mib))) small=$name ;;
	*) fail "$name: limit $(limit_of "$name")" ;;
	esac
done
[ "${half:+1}${small:+1}" = 11 ] || fail "not both: $("$spillway" stat)"
same "share" 50000 "$(counter "$small" share_set)"
says_which=$("$spillway" set twin --memory 32MiB 2>&1 || true)
has "which of them" "$says_which" "which 'twin'?"

# root on the node acts on one and not on the other.
"$spillway" set "$small" --memory 40MiB >/dev/null || fail "set"
until_true $patience is_on_device $(((16 + 40) * mib)) || fail "set: $(device_bytes) bytes"
same "the other's limit" $((memory / 2)) "$(limit_of "$half")"
"$spillway" pause --evict "$half" >/dev/null || fail "pause"
until_true $patience is_on_device $((40 * mib)) || fail "pause --evict: $(device_bytes) bytes"
"$spillway" resume "$half" >/dev/null || fail "resume"
until_true $patience is_on_device $(((16 + 40) * mib)) || fail "resume: $(device_bytes) bytes"
has "top" "$("$spillway" top 2>&1 </dev/null)" "allocate"
gone

# What cannot be is said.
has "no directory of the node" "$(SPILLWAY_NODE_DIR=/nowhere "$spillway" cdi 2>&1)" "/nowhere: there is no such directory"
for bad in half half= =1GiB half=much half=1GiB:200 'ha lf=1GiB'; do
	! "$spillway" cdi --device "$bad" >"$scratch/out" 2>&1 || fail "--device $bad"
	has "--device $bad" "$(cat "$scratch/out")" "spillway: --device $bad: "
done

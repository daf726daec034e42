#!/bin/sh
# Everything that takes device memory is counted: after each step of a program that takes it in every way, the bytes that
# stat shows are those of the software GPU's own books.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
mib=1048576
export SOFTGPU_CONTEXT_MEMORY=8M

mkfifo "$scratch/say" "$scratch/go"
"$spillway" run --softgpu --quiet --name counted --memory 512MiB "$build/tests/e2e/counted" \
	<"$scratch/go" >"$scratch/say" 2>"$scratch/errors" &
exec 3>"$scratch/go" 4<"$scratch/say"

shown() {
	"$spillway" stat counted --json | grep -o "\"$1\":[0-9]*" | head -n 1 | cut -d : -f 2
}

steps=0 wrong=''
while read -r what <&4; do
	true=$(device_bytes) used=$(shown device_used)
	echo "$what: $true, shown $used"
	[ "$true" = "$used" ] || wrong="$wrong; $what: $true bytes on the device, $used shown"
	case $what in
	"primary context") [ "$true" = $((8 * mib)) ] || wrong="$wrong; a context of $true bytes" ;;
	"no context"*) [ "$true" = 0 ] || wrong="$wrong; $what: $true bytes on the device" ;;
	"pinned host memory") same "$what" $((3 * mib + 8192)) "$(shown pinned_used)" ;;
	"pinned host memory, freed") same "$what" 0 "$(shown pinned_used)" ;;
	esac
	steps=$((steps + 1))
	echo go >&3
done
wait $! || fail "$(cat "$scratch/errors")"
[ -z "$wrong" ] || fail "${wrong#; }"
same "steps" 29 "$steps"

#!/bin/sh
# NVIDIA's own driver libraries, old and new, behind the shim on a machine without a GPU: every symbol, every
# address of cuGetProcAddress, what they lack, and who their internal calls reach.
#
# The libraries are Debian's packages (non-free), unpacked into the build folder and never part of Spillway.
# SPILLWAY_TEST_DRIVER=/path/libcuda.so.1: that one too.
set -eu
# shellcheck source=tests/e2e/proc_address.sh
. tests/e2e/proc_address.sh
arch=$(dpkg --print-architecture 2>/dev/null || uname -m)
addresses=$build/tests/e2e/proc_addresses
entry=$build/tests/e2e/entry

# VERSION:SUITE:PACKAGE. 450 has no cuGetProcAddress, 470 its first form alone, 555 answered the recorded requests.
packages="450:bullseye:libnvidia-tesla-450-cuda1 470:bullseye:libcuda1 535:bookworm:libcuda1 550:trixie:libcuda1
	555:experimental:libcuda1"

for package in $packages; do
	version=${package%%:*} rest=${package#*:}
	tools/dev/fetch-deb "${rest%:*}" non-free "$arch" "$build/debs/nvidia-$version" "${rest#*:}" \
		2>"$scratch/fetch-$version" &
done
wait

sed -n 's/^FUNCTION(\([A-Za-z0-9_]*\),.*/\1/p' shim/entry_points.h | LC_ALL=C sort >"$scratch/functions"
sed -n 's/^\(FUNCTION\|OBJECT\)(\([A-Za-z0-9_]*\),.*/\2/p' shim/entry_points.h | LC_ALL=C sort >"$scratch/known"

# check NAME FILE: a driver library behind the shim
check() {
	name=$1 folder=$(dirname "$2")
	with() { LD_LIBRARY_PATH=$folder LD_PRELOAD=$shim timeout -k 1 60 "$@"; }
	without() { LD_LIBRARY_PATH=$folder timeout -k 1 60 "$@"; }

	nm -D --defined-only "$2" | awk '$2 ~ /[TWi]/ { print $3 }' | LC_ALL=C sort >"$scratch/has"
	[ "$(wc -l <"$scratch/has")" -gt 400 ] || fail "$name: only $(wc -l <"$scratch/has") functions"
	nm -D --defined-only "$2" | awk '{ print $3 }' | LC_ALL=C sort | comm -23 - "$scratch/known" >"$scratch/unknown"
	same "$name: symbols that are not in shim/entry_points.h" "" "$(cat "$scratch/unknown")"

	# dlsym finds what this driver has, by our entry point, and nothing else.
	# shellcheck disable=SC2046 # a list of names
	with "$entry" --symbol $(cat "$scratch/functions") >"$scratch/found"
	sed -n 's/: shim$//p' "$scratch/found" | LC_ALL=C sort >"$scratch/ours"
	sed -n 's/: none, said$//p' "$scratch/found" | LC_ALL=C sort >"$scratch/absent"
	diff "$scratch/has" "$scratch/ours" >&2 || fail "$name: dlsym: the driver has <, the shim shows >"
	comm -23 "$scratch/functions" "$scratch/has" | diff - "$scratch/absent" >&2 ||
		fail "$name: the driver lacks <, dlsym does not find >"

	same "$name: cuInit and others" "$(without "$entry" --init)" "$(with "$entry" --init)"

	# Its internal calls stay inside: it looks none of its own names up, and of ours it gets dlopen and dlmopen, which go on
	# to glibc's. (Linked -Bsymbolic, it has no such reference at all.)
	LD_DEBUG=bindings LD_DEBUG_OUTPUT=$scratch/bindings with "$entry" --init >/dev/null
	cat "$scratch"/bindings.* | sed -n "s,.*binding file $folder/libcuda\.so[^ ]* \[0\] to \(.*\) \[0\].*symbol .\([^']*\)'.*,\1 \2,p" >"$scratch/bound"
	rm "$scratch"/bindings.*
	grep -q '/libc\.so\.6 ' "$scratch/bound" || fail "$name: bound to nothing: $(head -n 3 "$scratch/bound")"
	same "$name: calls that reach the shim" "" "$(sed -n '/ dlm\?open$/d; s,.*/libspillway[^ ]* ,,p' "$scratch/bound")"

	if ! grep -q '^cuGetProcAddress$' "$scratch/has"; then
		echo "$name: all symbols; it has no cuGetProcAddress"
		return
	fi
	# shellcheck disable=SC2086 # a list of numbers
	{ cat $requests; every_request $every_version <"$scratch/has"; } >"$scratch/requests"
	without "$addresses" "$scratch/requests" >"$scratch/driver"
	with "$addresses" "$scratch/requests" >"$scratch/shim"
	hooked=$(grep -c ' shim ' "$scratch/shim") || fail "$name: no hook was handed out"
	answered=$(head -n 462 "$scratch/driver" | grep -c ' driver cu')
	[ "$answered" -ge 390 ] || fail "$name: only $answered requests of libcudart were answered"
	compare "$name" "$scratch/driver" "$scratch/shim"
	echo "$name: all symbols; $(wc -l <"$scratch/requests") addresses, $hooked of them hooks"
}

ran=0 missing=
for package in $packages; do
	version=${package%%:*}
	if [ -s "$scratch/fetch-$version" ]; then
		missing="$version: $(tail -n 1 "$scratch/fetch-$version")"
		echo "$missing"
		continue
	fi
	library=$(find "$build/debs/nvidia-$version" -name libcuda.so.1)
	[ -n "$library" ] || fail "$version: the package has no libcuda.so.1"
	check "driver $version" "$library"
	ran=$((ran + 1))
done
installed=$(ldconfig -p 2>/dev/null | sed -n 's/.*libcuda\.so\.1 .*=> //p' | head -n 1)
for library in $installed ${SPILLWAY_TEST_DRIVER:-}; do
	check "$library" "$library"
done
if [ -n "$missing" ]; then
	echo "$ran driver libraries of NVIDIA's were checked; driver $missing"
	exit 77
fi

#!/bin/sh
# SPDX-License-Identifier: MIT
# Every name of the driver's file, opened in every manner, leads to the shim. A file that is no
# driver fails as without Spillway. A driver in a namespace of its own works, is out of reach, and a
# line says so.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
entry=$build/tests/e2e/entry

# A driver as it is installed, links to it, and what a search may come upon besides.
mkdir -p "$scratch/driver" "$scratch/folder/libcuda.so.1" "$scratch/empty" "$scratch/text" "$scratch/other"
cp "$build/bench/null/libcuda.so.1" "$scratch/driver/libcuda.so.580.65.06"
ln -s libcuda.so.580.65.06 "$scratch/driver/libcuda.so.1.1"
ln -s libcuda.so.1.1 "$scratch/driver/libcuda.so.1"
ln -s driver "$scratch/link"
ln -s driver/libcuda.so.1 "$scratch/gpu.so"
ln -s libm.so.6 "$scratch/dangling.so"
: >"$scratch/empty/libcuda.so.1"
echo "not a library at all, but longer than the header of one: $(seq 30 | tr '\n' ' ')" >"$scratch/text/libcuda.so.1"
# The driver for 32-bit programs, by its class.
{ printf '\177ELF\001' && tail -c +6 "$build/bench/null/libcuda.so.1"; } >"$scratch/other/libcuda.so.1"

asked() { # asked NAME...: the answers, from the folder of the driver
	(cd "$scratch/driver" && LD_PRELOAD=$shim LD_LIBRARY_PATH=$scratch/driver "$entry" "$@" 2>"$scratch/err")
}
for name in libcuda.so.1 libcuda.so libcuda.so.1.1 libcuda.so.580.65.06 ./libcuda.so.1 ./libcuda.so.580.65.06 \
	../driver/libcuda.so.1 "$scratch/link/libcuda.so.1" ../gpu.so "$scratch/gpu.so" "$build/lib/libcuda.so.1" \
	"$build/lib/libspillway.so"; do
	for how in "" noload: global: base:; do
		same "$how$name" "$how$name: shim" "$(asked "$how$name")"
	done
	same "an invalid mode" "nomode:$name: none" "$(asked "nomode:$name")"
done
# By any other name it is known by what it says it is.
ln "$scratch/driver/libcuda.so.580.65.06" "$scratch/driver/card.bin"
cp "$scratch/driver/card.bin" "$scratch/driver/copied.so"
for name in ./card.bin ./copied.so fd:libcuda.so.1 fd:card.bin memory:card.bin; do
	same "$name" "$name: shim" "$(asked "$name")"
done
# What is spilled can move, whichever way the driver was opened: what asks it finds the same file.
for name in "$softgpu/libcuda.so.1" "fd:$softgpu/libcuda.so.1"; do
	out=$(SPILLWAY_LOG=info SPILLWAY_JOB=opened SPILLWAY_MEMORY=8MiB under_shim "$entry" --spill "$name" 2>&1) || fail "$name: $out"
	has "$name" "$out" "first spill"
	case $out in *"does not move"* | *"more than 10 s"*) fail "$name: $out" ;; esac
	rm -f "$SPILLWAY_STATE_DIR/driver-probe"
done
for name in self default next; do
	same "$name" "$name: shim" "$(asked "$name")"
done
if [ -z "${SANITIZER:-}" ]; then # a sanitizer refuses RTLD_DEEPBIND by itself
	for name in libcuda.so ./libcuda.so.1 libcuda.so.1.1 ../gpu.so; do
		same "deepbind:$name" "deepbind:$name: shim" "$(asked "deepbind:$name")"
	done
fi
# One handle for all of them, whichever came first.
same "one after the other" "../gpu.so: shim
noload:libcuda.so: shim
base:./libcuda.so.1: shim
libcuda.so.1: shim
noload:libcuda.so.580.65.06: shim" \
	"$(asked ../gpu.so noload:libcuda.so base:./libcuda.so.1 libcuda.so.1 noload:libcuda.so.580.65.06)"

# By its name for linking the driver is found too, not what a toolkit has there to link with;
# without the alias too.
mkdir "$scratch/stubs"
cp "$build/bench/null/libcuda.so.1" "$scratch/stubs/libcuda.so"
for preload in "$shim" "$build/lib/libspillway.so"; do
	out=$(SPILLWAY_LOG=debug LD_PRELOAD=$preload LD_LIBRARY_PATH=$scratch/stubs:$softgpu "$entry" libcuda.so 2>&1)
	has "libcuda.so" "$out" "driver library: $softgpu/libcuda.so.1"
	has "libcuda.so" "$out" "libcuda.so: shim"
done

# Whichever of the shims is loaded, neither is taken for the driver where its folder is searched
# first.
mkdir "$scratch/shims"
cp "$build/lib/libspillway.so" "$scratch/shims/"
if [ -e "$build/lib/libspillway-2.34.so" ]; then cp "$build/lib/libspillway-2.34.so" "$scratch/shims/"; fi
for loaded in "$scratch"/shims/*.so; do
	for linked in "$scratch"/shims/libspillway*.so; do
		ln -sf "${linked##*/}" "$scratch/shims/libcuda.so.1"
		out=$(SPILLWAY_LOG=debug LD_PRELOAD=$loaded LD_LIBRARY_PATH=$scratch/shims:$softgpu "$entry" libcuda.so.1 "$scratch/shims/libcuda.so.1" 2>&1)
		has "$loaded beside $linked" "$out" "driver library: $softgpu/libcuda.so.1"
		same "$loaded beside $linked: answers of the shim" 2 "$(echo "$out" | grep -c ': shim$')"
	done
done

# What fails without us fails, and the next file that is tried is the driver the program gets.
for name in ../folder/libcuda.so.1 ../empty/libcuda.so.1 ../text/libcuda.so.1 ../other/libcuda.so.1 \
	/nonexistent/libcuda.so.1 ../dangling.so libcuda.so.9 libcuda.so.x ./libcuda.so; do
	for how in "" base:; do
		same "$how$name" "$how$name: none" "$(asked "$how$name")"
	done
	same "nothing is said of $name" "" "$(cat "$scratch/err")"
done
out=$(SPILLWAY_LOG=debug LD_PRELOAD=$shim LD_LIBRARY_PATH=$scratch/empty:$scratch/other:$softgpu \
	"$entry" "$scratch/empty/libcuda.so.1" "$scratch/driver/libcuda.so.1" 2>&1)
has "a search" "$out" "$scratch/empty/libcuda.so.1: none"
has "a search" "$out" "driver library: $scratch/driver/libcuda.so.1"
has "a search" "$out" "$scratch/driver/libcuda.so.1: shim"
out=$(SPILLWAY_LOG=debug LD_PRELOAD=$shim LD_LIBRARY_PATH=$scratch/empty:$scratch/other:$softgpu \
	"$entry" libcuda.so.1 2>&1)
has "files that cannot be loaded are passed over" "$out" "driver library: $softgpu/libcuda.so.1"

# In a namespace of its own a driver is loaded beside the shim: it works, uncounted, and one line
# says so. (But a driver that is built with a sanitizer, which would be there a second time.)
if [ -z "${SANITIZER:-}" ]; then
	for name in libcuda.so.1 ./libcuda.so.1 ../gpu.so; do
		same "new:$name" "new:$name: driver
new:$name: driver
$name: shim" "$(asked "new:$name" "new:$name" "$name")"
		same "lines" 1 "$(wc -l <"$scratch/err")"
		has "the line" "$(cat "$scratch/err")" "neither limited nor counted"
	done
fi
same "another library there" "new:libm.so.6: none" "$(asked new:libm.so.6)"
same "nothing is said of it" "" "$(cat "$scratch/err")"

# dlvsym answers as it does of the driver itself, whose symbols have no versions.
set -- cuInit@libcuda.so.1 cuInit@GLIBC_2.2.5 cuMemAlloc_v2@CUDA cuNoSuchThing@GLIBC_2.2.5
without=$(LD_LIBRARY_PATH=$softgpu "$entry" --symbol "$@")
same "dlvsym" "$without" "$(under_shim "$entry" --symbol "$@" | sed 's/: shim/: driver/')"
has "dlvsym" "$without" "cuNoSuchThing@GLIBC_2.2.5: none, said"

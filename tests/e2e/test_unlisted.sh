#!/bin/sh
# SPDX-License-Identifier: MIT
# A program is linked to functions of a driver that is newer than Spillway (an imitation,
# later_driver.c). It starts, and gets the driver's answers. Functions are bound when they are
# called or at the start, by their addresses, dlsym and cuGetProcAddress.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

later=$build/tests/e2e/later
lib=$scratch/lib/spillway
cache=$scratch/cache/spillway
export SOFTGPU_QUIET=1 XDG_CACHE_HOME="$scratch/cache" LD_LIBRARY_PATH="$later"

# An installation of its own, because root's library lies beside the shim.
mkdir -p "$lib" "$scratch/bin"
cp "$build/spillway" "$scratch/bin"
cp "$build"/lib/*.so "$build/lib/driver-probe" "$lib"
ln -s libspillway.so "$lib/libcuda.so.1"
spillway=$scratch/bin/spillway

"$build/tests/e2e/unlisted" >"$scratch/driver"
same "answers of the driver" 15 "$(wc -l <"$scratch/driver")"
# In a job a newer form of a call that takes memory is withheld, as by cuGetProcAddress.
sed 's/^\(a newer form.*\): .*/\1: 801/' "$scratch/driver" >"$scratch/in_a_job"

# The shim alone does not know them: so it is the library that lets the program start.
! LD_PRELOAD="$lib/libspillway.so $lib/libspillway-alias.so" "$build/tests/e2e/unlisted" >"$scratch/alone" 2>&1 ||
	fail "the program starts without the companion library: $(cat "$scratch/alone")"
has "the loader" "$(cat "$scratch/alone")" "undefined symbol: cuInvented"

# --- spillway run ---
for program in unlisted unlisted-now; do
	"$spillway" run --quiet --memory 16MiB sh -c "exec $build/tests/e2e/$program" >"$scratch/out" 2>"$scratch/err" ||
		fail "$program: $(cat "$scratch/err")"
	diff "$scratch/in_a_job" "$scratch/out" || fail "$program: answers differ (< driver, > spillway run)"
	same "$program: said" 1 "$(grep -c 'cuInvented.*neither limited nor counted' "$scratch/err")"
	has "$program: withheld" "$(cat "$scratch/err")" "linked(cuMemMap_v8): the driver has a newer form"
done
same "files in the cache" 1 "$(find "$cache" -name 'libspillway-companion-*.so' | wc -l)"

# A damaged file is made again; a file that stays is not.
made=$(find "$cache" -name '*.so')
: >"$made"
"$spillway" run --quiet "$build/tests/e2e/unlisted-now" >"$scratch/out" 2>"$scratch/err"
inode=$(stat -c %i "$made")
"$spillway" run --quiet "$build/tests/e2e/unlisted-now" >"$scratch/out"
same "the file stays" "$inode" "$(stat -c %i "$made")"
SPILLWAY_DISABLE=1 "$spillway" run --quiet "$build/tests/e2e/unlisted" >"$scratch/out" 2>/dev/null
diff "$scratch/driver" "$scratch/out" || fail "answers differ (< driver, > SPILLWAY_DISABLE=1)"

# A driver whose functions are all known needs no library; another driver gets another file.
preloaded=$(LD_LIBRARY_PATH=$softgpu "$spillway" run --quiet sh -c 'echo "$LD_PRELOAD"')
case $preloaded in *companion*) fail "a known driver has a companion library: $preloaded" ;; esac

# With no folder for it the program that needs it is told why it does not start.
XDG_CACHE_HOME='' HOME='' "$spillway" run --quiet true 2>"$scratch/err"
has "without a cache" "$(cat "$scratch/err")" "a program that is linked to one of 4 functions that Spillway does not know"

# --- doctor ---
"$spillway" doctor >"$scratch/doctor" 2>&1 || :
has "doctor" "$(cat "$scratch/doctor")" \
	"functions that Spillway does not know: 4 (cuInventedContext, cuInventedScale, cuInventedSum, cuMemMap_v8)"
has "doctor" "$(cat "$scratch/doctor")" "companion library: $made"
"$spillway" doctor --companion >"$scratch/doctor" || fail "doctor --companion: $(cat "$scratch/doctor")"
companion=$(sed -n 's/^ok  companion library: \(.*\): 4 functions of .*/\1/p' "$scratch/doctor")
[ -r "$companion" ] || fail "doctor --companion names no file: $(cat "$scratch/doctor")"
LD_LIBRARY_PATH=$softgpu "$spillway" doctor --companion >"$scratch/doctor"
has "a known driver" "$(cat "$scratch/doctor")" "none is needed"

# --- LD_PRELOAD by hand, as libspillway.so and as libvgpu.so ---
for list in "$lib/libspillway.so $lib/libspillway-alias.so $companion" "$lib/libvgpu.so $companion"; do
	[ "${list#*libvgpu}" = "$list" ] || built_in vgpu || continue
	for program in unlisted unlisted-now; do
		LD_PRELOAD=$list "$build/tests/e2e/$program" >"$scratch/out" 2>"$scratch/err" ||
			fail "$list: $program: $(cat "$scratch/err")"
		diff "$scratch/driver" "$scratch/out" >"$scratch/differ" ||
			diff "$scratch/in_a_job" "$scratch/out" || fail "$list: $program: answers differ"
	done
	# Another driver, which lacks them: the program starts, and is told.
	LD_LIBRARY_PATH=$softgpu LD_PRELOAD=$list "$build/tests/e2e/unlisted-now" >"$scratch/out" 2>"$scratch/err" ||
		fail "$list: an older driver: $(cat "$scratch/err")"
	has "an older driver" "$(cat "$scratch/out")" "called: 801"
done

# --- /etc/ld.so.preload; not with a sanitizer, whose library would come into every command ---
[ -z "${SANITIZER:-}" ] || exit 0
[ "$(id -u)" -eq 0 ] && unshare --mount mount -t tmpfs none /mnt 2>/dev/null || exit 0
cat >"$scratch/inside" <<END
set -eu
mkdir $scratch/etc
cp /etc/passwd /etc/group /etc/nsswitch.conf /etc/ld.so.cache $scratch/etc 2>/dev/null || :
mount --bind $scratch/etc /etc
rm $companion
echo "$lib/libspillway.so $lib/libspillway-alias.so" >/etc/ld.so.preload
$spillway doctor >$scratch/doctor || :
$spillway run --quiet --memory 16MiB $build/tests/e2e/unlisted-now >$scratch/run
$spillway doctor --companion >$scratch/doctor_companion
echo "$companion" >>/etc/ld.so.preload
SPILLWAY_MEMORY=16MiB $build/tests/e2e/unlisted >$scratch/out
SPILLWAY_MEMORY=16MiB $build/tests/e2e/unlisted-now >$scratch/now
$spillway doctor >$scratch/doctor_after || :
END
unshare --mount --propagation private sh "$scratch/inside" 2>"$scratch/err" || fail "ld.so.preload: $(cat "$scratch/err")"
for out in run out now; do
	diff "$scratch/in_a_job" "$scratch/$out" || fail "ld.so.preload: $out: answers differ"
done
has "doctor" "$(cat "$scratch/doctor")" "--  companion library: /etc/ld.so.preload has Spillway and no library"
has "doctor" "$(cat "$scratch/doctor_after")" "ok  companion library: $companion"

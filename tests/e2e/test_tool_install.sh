#!/bin/sh
# SPDX-License-Identifier: MIT
# make install without root, a run from there, make uninstall.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

if [ ! -e "$BUILD/lib/libspillway.so" ]; then
	echo 'there is no shim to install'
	exit 77
fi
unset MAKEFLAGS MFLAGS MAKELEVEL
prefix=$TMPDIR/prefix
# shellcheck disable=SC2317 # called by expect
install() {
	make --no-print-directory DEPS=never SANITIZER="${SANITIZER:-}" PREFIX="$prefix" "$@"
}

expect 0 install install
says "$out" "^not on PATH: $prefix/bin; "
expect 0 env PATH="$prefix/bin:$PATH" make --no-print-directory DEPS=never SANITIZER="${SANITIZER:-}" PREFIX="$prefix" install
says_not "$out" '^not on PATH'
for file in bin/spillway lib/spillway/libspillway.so lib/spillway/libspillway-alias.so \
	lib/spillway/libspillway-nvml.so lib/spillway/libcuda.so.1 lib/spillway/softgpu/libcuda.so.1 \
	lib/spillway/softgpu/libnvidia-ml.so.1 lib/spillway/softgpu/libcudart.so.12 lib/spillway/softgpu/libcublas.so.12 \
	lib/spillway/softgpu/libcudnn.so.9 lib/spillway/softgpu/libsoftgpu-node.so lib/spillway/softgpu/libsoftgpu-refuse.so \
	lib/spillway/softgpu/cuda/bin/ptxas \
	lib/spillway/driver-probe lib/spillway/try/train_mlp share/doc/spillway/spillway.ini \
	share/bash-completion/completions/spillway share/zsh/site-functions/_spillway \
	share/fish/vendor_completions.d/spillway.fish share/doc/spillway/conf/kubernetes/pod.yaml; do
	[ -e "$prefix/$file" ] || fail "$file is not installed"
done
if command -v scdoc >/dev/null; then
	[ -e "$prefix/share/man/man1/spillway-run.1" ] || fail 'spillway-run.1 is not installed'
	"$spillway" stat --format prometheus | sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' >"$TMPDIR/metrics"
	[ -s "$TMPDIR/metrics" ] || fail 'there are no metrics'
	while read -r metric; do
		grep -q "^\\\\fB$metric\\\\fR" "$prefix/share/man/man1/spillway-stat.1" ||
			fail "$metric is not in spillway-stat.1"
	done <"$TMPDIR/metrics"
	for page in man1/spillway.1 man1/spillway-pause.1 man1/spillway-resume.1 man5/spillway.ini.5 man7/spillway.7; do
		[ -e "$prefix/share/man/$page" ] || fail "$page is not installed"
	done
	for command in $("$spillway" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
		[ -e "$prefix/share/man/man1/spillway-$command.1" ] || fail "$command has no page"
	done
else
	says "$out" '^no man pages installed'
fi
if [ -z "${SANITIZER:-}" ]; then
	# shellcheck disable=SC2016 # for the inner shell
	expect 0 env SPILLWAY_DRIVER="$build/tests/e2e/empty.so" "$prefix/bin/spillway" run sh -c 'echo "$LD_PRELOAD"'
	says "$out" '/prefix/lib/spillway/libspillway(-2\.34)?\.so:'
	says_not "$err" .
fi
# Who has no GPU tries what was installed.
if [ -z "${SANITIZER:-}" ]; then
	expect 0 "$prefix/bin/spillway" run --softgpu --memory 16MiB train_mlp --epochs 2
	says "$out" '^epoch 2: '
fi
ln -s "$prefix/bin/spillway" "$TMPDIR/link"
"$TMPDIR/link" doctor >"$out"
says "$out" '^ok  shim: .*/prefix/lib/spillway/libspillway(-2\.34)?\.so'

# A second install replaces what is mapped by a rename: a process that runs keeps its own.
library=$prefix/lib/spillway/libspillway.so
exec 7<"$library"
sum=$(cksum <"$library")
before=$(stat -c %i "$library")
expect 0 install install
says "$out" "^installed: $prefix/bin/spillway, .*; make uninstall PREFIX=$prefix removes them$"
[ "$(stat -c %i "$library")" != "$before" ] || fail 'the library was written over in place'
[ "$(cksum <&7)" = "$sum" ] || fail 'a process lost what it had mapped'
exec 7<&-
make -n --no-print-directory DEPS=never PREFIX="$prefix" run-install >"$out" 2>&1
says_not "$out" '^rm -f [^;]*libspillway\*'

# Uninstalling what the whole machine preloads would have every command print errors.
list=$TMPDIR/root/etc/ld.so.preload
mkdir -p "$TMPDIR/root/etc" "$TMPDIR/root$prefix/lib/spillway"
echo "/lib/other.so $library $prefix/lib/spillway/libspillway-alias.so" >"$list"
touch "$TMPDIR/root$library"
expect 2 install uninstall DESTDIR="$TMPDIR/root"
says "$err" "^$list names $prefix/lib/spillway, and without it every command here would print errors"
[ -e "$TMPDIR/root$library" ] || fail 'a refused uninstall has removed the library'
eval "$(sed -n 's/.*first: //p' "$err")"
says "$list" '^/lib/other.so *$'
expect 0 install uninstall DESTDIR="$TMPDIR/root"
[ ! -e "$TMPDIR/root$library" ] || fail 'the library is left'

LD_PRELOAD=$library sleep 1000 &
mapped() { grep -qs "$library" "/proc/$!/maps"; }
until mapped; do sleep 0.05; done
expect 0 install uninstall
says "$out" "^removed: $prefix/bin/spillway, $prefix/lib/spillway$"
says "$out" '^processes that go on with it until they end: [1-9]'
kill $!
left=$(find "$prefix" ! -type d)
[ -z "$left" ] || fail "left after uninstall: $left"
finish

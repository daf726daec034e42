# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced by the tests of the kit: a folder that is a machine's root. It has a shell, its usual
# tools and glibc alone: no compiler, no Python, no network, no CUDA.
: "${BUILD:=build}" "${TMPDIR:?set by tests/run}"
root=$TMPDIR/root

fail() {
	echo "FAILED: $*"
	exit 1
}

# bare_make: of this machine's own tools and glibc
bare_make() {
	mkdir -p "$root/bin" "$root/usr" "$root/etc" "$root/proc" "$root/dev/shm" "$root/tmp" "$root/kit" "$root/out"
	ln -s ../bin "$root/usr/bin"
	chmod 1777 "$root/tmp"
	echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
	for tool in sh awk grep sed tar basename cat chmod cksum cp cut date dirname env head id kill ln ls mkdir mktemp mv nproc od \
		pwd readlink rm rmdir seq sleep sort stat tail tee test timeout touch tr true uname wc; do
		path=$(command -v "$tool" 2>/dev/null) || fail "this machine has no $tool"
		case $path in /*) ;; *) path=/bin/$tool ;; esac # what the shell does itself is a program, too
		cp -L "$path" "$root/bin/$tool"
		with_libraries "$path"
	done
	# The libraries of glibc that programs of before 2.34 name; the loader finds them beside
	# libc.
	for library in libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1; do
		copy_library "$(dirname "$(libc_path)")/$library"
	done
	bare_may_be_entered
}
libc_path() { ldd /bin/sh | sed -n 's/.*=> \(.*libc\.so\.6\) .*/\1/p'; }
copy_library() {
	[ -e "$1" ] || return 0
	mkdir -p "$root$(dirname "$1")"
	[ -e "$root$1" ] || cp -L "$1" "$root$1"
}
with_libraries() { # with_libraries PROGRAM: what it is linked to, and its loader
	for library in $(ldd "$1" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p'); do copy_library "$library"; done
}

# bare_make_of_packages FOLDER: of packages that were unpacked there by tools/dev/fetch-deb
bare_make_of_packages() {
	cp -a "$1" "$root"
	# Links that lead into the folder they were unpacked in lead into the root.
	find "$root" -type l | while read -r link; do
		case $(readlink "$link") in
		"$1"/*) ln -sfn "$(readlink "$link" | sed "s,^$1,,")" "$link" ;;
		esac
	done
	mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/kit" "$root/out"
	chmod 1777 "$root/tmp"
	ln -sf mawk "$root/usr/bin/awk"
	echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
	bare_may_be_entered
}

# How a new namespace of mounts and networks is made: by anybody's right, or by root's. Where by
# neither, the test ends here.
bare_may_be_entered() {
	for enter in "unshare -rmn" "unshare -mn"; do
		# shellcheck disable=SC2086 # several words
		if $enter sh -c "mount --rbind /proc '$root/proc'" >/dev/null 2>&1; then return 0; fi
	done
	echo "no namespaces of mounts and networks here (unshare -rmn): a bare root cannot be entered"
	exit 77
}

# bare COMMAND...: runs it there, with the kit in /kit and $TMPDIR/out in /out. VARIABLES: settings,
# as for env. ALL_DIE: set, if all that it started is to die with it.
bare() {
	mkdir -p "$TMPDIR/out"
	# shellcheck disable=SC2016,SC2086 # for the shell inside; several words
	exec $enter ${ALL_DIE:+--pid --fork --kill-child} sh -c '
		root=$1 kit=$2 out=$3 variables=$4
		shift 4
		set -e
		mount --rbind /proc "$root/proc"
		mount -t tmpfs -o mode=755 none "$root/dev"
		mkdir -m 1777 "$root/dev/shm"
		for device in null zero urandom; do
			touch "$root/dev/$device"
			mount --bind "/dev/$device" "$root/dev/$device"
		done
		mount --bind "$kit" "$root/kit"
		mount --bind "$out" "$root/out"
		exec "$(PATH=$PATH:/usr/sbin:/sbin command -v chroot)" "$root" /usr/bin/env -i PATH=/usr/bin:/bin $variables "$@"' bare "$root" "$(realpath "$BUILD/gpu-kit")" "$TMPDIR/out" "${VARIABLES:-}" "$@"
}

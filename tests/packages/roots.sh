# SPDX-License-Identifier: MIT
# Sourced: folders with other systems, made by debootstrap once and kept outside the clone.
# shellcheck shell=sh
roots=${XDG_CACHE_HOME:-$HOME/.cache}/spillway/roots

# need_root SUITE PACKAGE...: makes $root, a system of that Debian or Ubuntu with these packages, or
# skips
need_root() {
	suite=$1
	shift
	[ "$(id -u)" -eq 0 ] || skip "only root can enter another system's folder"
	unshare --mount true 2>/dev/null || skip 'no mount namespace can be made here'
	root=$roots/$suite-$(echo "$suite $*" | cksum | cut -d' ' -f1)
	# Tests that want the same root wait for the one that makes it.
	mkdir -p "$roots"
	exec 9>"$root.lock"
	flock 9
	[ ! -e "$root/made" ] || { exec 9>&-; return 0; }
	PATH=$PATH:/usr/sbin
	rm -rf "$root"
	mkdir "$root"
	case $suite in
	jammy | noble)
		# Its keys are a package of Debian. Debian 12's debootstrap does not know the newest
		# suites, which have the script of the others.
		keys=$PWD/build/debs/ubuntu
		tools/dev/fetch-deb trixie main "$(dpkg --print-architecture)" "$keys" ubuntu-keyring 2>"$TMPDIR/debootstrap" &&
			made_from "$suite" "$*" "--components=main,universe --keyring=$keys/usr/share/keyrings/ubuntu-archive-keyring.gpg" \
				/usr/share/debootstrap/scripts/gutsy
		;;
	*) made_from "$suite" "$*" ;;
	esac || {
		rm -rf "$root"
		skip "$suite cannot be had: $(tail -n 1 "$TMPDIR/debootstrap")"
	}
	touch "$root/made"
	exec 9>&-
}

made_from() { # made_from SUITE PACKAGES [OPTIONS [SCRIPT]]
	# shellcheck disable=SC2086 # options
	debootstrap --variant=minbase --include="$(echo "$2" | tr ' ' ',')" ${3:-} "$1" "$root" ${4:+"" "$4"} >"$TMPDIR/debootstrap" 2>&1
}

skip() {
	echo "$*"
	exit 77
}

# in_root COMMAND: runs a shell's COMMAND in $root, as root, with $TMPDIR as its /mnt, no network
# and nothing of this machine's environment. What it writes elsewhere is gone afterwards.
in_root() {
	unshare --mount --pid --fork --ipc --net sh -eu -c '
		root=$1 shared=$2
		mount -t tmpfs none /media
		mkdir /media/up /media/work /media/root
		mount -t overlay none -o "lowerdir=$root,upperdir=/media/up,workdir=/media/work" /media/root
		mount --bind "$shared" /media/root/mnt
		mount -t proc none /media/root/proc
		mount --rbind /dev /media/root/dev
		mount -t tmpfs none /media/root/dev/shm
		exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			chroot /media/root /bin/sh -eu -c "$3"' sh "$root" "$TMPDIR" "$1"
}

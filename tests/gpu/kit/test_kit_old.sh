#!/bin/sh
# SPDX-License-Identifier: MIT
# The GPU kit on Debian 11 with its glibc 2.31, the oldest that it is made for. Questions are
# answered and programs start. Those of nvcc, which want their constructors run, work as they do
# here.
set -eu
. tests/gpu/kit/bare.sh
arch=$(dpkg --print-architecture 2>/dev/null) || {
	echo "no dpkg here to unpack another C library"
	exit 77
}
folder=$(realpath "$BUILD")/debs/debian11-tools
reason=$(tools/dev/fetch-deb bullseye main "$arch" "$folder" libc6 dash coreutils sed grep mawk tar libselinux1 libpcre2-8-0 \
	libpcre3 libacl1 libattr1 libgmp10 libgcc-s1 2>&1) || {
	echo "$reason"
	exit 77
}
bare_make_of_packages "$folder"

part() { # part N STEPS
	(VARIABLES="STEPS=$2" bare /kit/selftest /out/run "$1") >"$TMPDIR/said" 2>&1 || {
		cat "$TMPDIR/said" "$TMPDIR"/out/run/*/log
		fail "part $1"
	}
	cat "$TMPDIR/said"
}
part 1 "machine|questions"
part 2 "doctor|cudart"
[ "$(wc -l <"$TMPDIR/out/run/1-questions/answers.tsv")" -ge 80 ] || fail "few answers: $(cat "$TMPDIR/out/run/1-questions/answers.tsv")"
[ ! -e "$BUILD/gpu/cudart_blocks_shared" ] || grep -q '^2-cudart	ok' "$TMPDIR/out/run/steps.tsv" || fail "$(cat "$TMPDIR/out/run/2-cudart/log")"

#!/bin/sh
# SPDX-License-Identifier: MIT
# find-cuda and deps: a cuda.h that is too old is none; looking fetches nothing.

# A toolkit of this machine is covered up where that is possible.
system=$(readlink -f /usr/local/cuda)
if [ -d "$system" ] && [ -z "${COVERED:-}" ] && unshare -rm true 2>/dev/null; then
	export COVERED=yes
	# shellcheck disable=SC2016 # for the inner shell
	exec unshare -rm sh -c 'mount -t tmpfs none "$1"; exec "$0"' "$0" "$system"
fi
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
unset CUDA_WHEEL

header() { # header FOLDER VERSION
	mkdir -p "$TMPDIR/$1/include"
	echo "#define CUDA_VERSION $2" >"$TMPDIR/$1/include/cuda.h"
}
header new 13000
header old 12080
cp -r tools/dev "$TMPDIR/dev"
cd "$TMPDIR" || exit 1

CUDA_HOME=$TMPDIR/new
export CUDA_HOME
expect 0 dev/find-cuda --look build
says "$out" "^CUDA_INCLUDE := $TMPDIR/new/include$"

# An nvcc at hand belongs to a toolkit of no version at all.
mkdir -p toolkit/bin
printf '#!/bin/sh\n' >toolkit/bin/nvcc
printf '#!/bin/sh\nexit 1\n' >toolkit/bin/python3
chmod +x toolkit/bin/*
PATH=$TMPDIR/toolkit/bin:$PATH
CUDA_HOME=$TMPDIR/old
dev/find-cuda --look build >"$out" 2>"$err"
status=$?
says "$err" "^find-cuda: $TMPDIR/old/include/cuda.h is version 12080, expected >= 13000; passed over$"
[ ! -e build ] || fail 'looking has made something'
if [ $status -eq 0 ]; then
	echo 'the rest needs a machine without a new toolkit in /usr/local/cuda'
	[ "$failures" -eq 0 ] || finish
	exit 77
fi
expect 1 env DEPS=never dev/deps build
says "$err" '^Missing packages:.* python3-pip'
mkdir -p build/cuda-headers
cp new/include/cuda.h build/cuda-headers/
expect 0 dev/find-cuda --look build
DEPS=never dev/deps build 2>"$err"
says_not "$err" python3-pip
finish

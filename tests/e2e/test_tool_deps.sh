#!/bin/sh
# SPDX-License-Identifier: MIT
# find-cuda and deps: a cuda.h that is too old is none; looking fetches nothing. A user is asked
# before sudo; without scdoc make install goes on.

# A toolkit of this machine is covered up where that is possible.
system=$(readlink -f /usr/local/cuda)
if [ -d "$system" ] && [ -z "${COVERED:-}" ] && unshare -rm true 2>/dev/null; then
	export COVERED=yes
	# shellcheck disable=SC2016 # for the inner shell
	exec unshare -rm sh -c 'mount -t tmpfs none "$1"; exec "$0"' "$0" "$system"
fi
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
unset CUDA_WHEEL DEPS

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

# Of a user: sudo runs after a yes at a terminal, or with DEPS=always.
printf '#!/bin/sh\necho 1000\n' >toolkit/bin/id
printf '#!/bin/sh\necho "$*" >>sudone\n' >toolkit/bin/sudo
printf '#!/bin/sh\n' >toolkit/bin/apt-get
chmod +x toolkit/bin/*
expect 1 dev/deps build </dev/null
says "$err" 'no terminal to ask at: run the command above, or make with DEPS=always'
for answer in n y; do
	[ ! -e sudone ] || fail "sudo was run: $(cat sudone)"
	echo $answer | script -qec 'dev/deps build' /dev/null >"$out"
	says "$out" 'Run it[?] It downloads from the archives that apt has here'
done
says sudone '^env DEBIAN_FRONTEND=noninteractive apt-get install .* python3-pip'
rm sudone
expect 0 env DEPS=always dev/deps build
says sudone 'python3-pip'
rm toolkit/bin/id toolkit/bin/sudo toolkit/bin/apt-get
mkdir -p build/cuda-headers
cp new/include/cuda.h build/cuda-headers/
expect 0 dev/find-cuda --look build
DEPS=never dev/deps build 2>"$err"
says_not "$err" python3-pip

# scdoc, covered up.
if command -v scdoc >/dev/null && unshare -rm true 2>/dev/null; then
	# shellcheck disable=SC2016 # for the inner shell
	expect 0 unshare -rm sh -c 'mount --bind /dev/null "$(command -v scdoc)"; DEPS=never dev/deps install'
	says "$err" '^Missing packages: scdoc$'
	says "$err" 'it goes on without man pages$'
fi
finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# The lines of README's Install section as they are, for the wheel and for Debian's packages: each
# where it belongs, then the two that train. test_source.sh has the line for the sources.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/packages/roots.sh
. tests/packages/roots.sh
# shellcheck source=tests/packages/readme.sh
. tests/packages/readme.sh
bin=$build/packages/venv/bin
version=$(sed -n 's/^version := //p' Makefile)
cp "$build"/packages/gpu_spillway-"$version"-*_"$(uname -m)".whl "$build"/packages/*_"$version"_*.deb "$TMPDIR/"

# The wheel, by the pipx of this machine.
HOME=$scratch/home
mkdir "$HOME"
(
	cd "$TMPDIR"
	export HOME PATH="$HOME/.local/bin:$bin:$PATH" UV_NO_CONFIG=1 UV_OFFLINE=1 PIP_NO_INDEX=1 PIPX_DEFAULT_BACKEND=uv
	sh -eu -c "$(line 1)" && sh -eu "$TMPDIR/trains"
) >"$scratch/wheel" 2>&1 || fail "the wheel: $(cat "$scratch/wheel")"
trains "$scratch/wheel"

need_root bookworm apt libncursesw6 libtinfo6 procps python3
in_root "
	export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root
	cd /mnt
	{
		$(line 2)
	} </dev/null 2>&1
	sh -eu ./trains" >"$scratch/deb" 2>&1 || fail "Debian's packages: $(cat "$scratch/deb")"
trains "$scratch/deb"

#!/bin/sh
# SPDX-License-Identifier: MIT
# The wheel: its judges find nothing, and two builds give the same bytes. It works where pip, uvx
# and pipx put it, in an environment of Debian 11, with its glibc 2.31, and in this machine's.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/packages/roots.sh
. tests/packages/roots.sh
bin=$build/packages/venv/bin
wheel=$(ls "$build"/packages/gpu_spillway-*.whl)
cp "$wheel" "$TMPDIR/"
name=${wheel##*/}

"$bin/twine" check --strict "$wheel" >"$scratch/twine" 2>&1 || fail "twine: $(cat "$scratch/twine")"
# What it wants of others is glibc's, and the driver's two libraries, which no package has.
"$bin/auditwheel" show --json "$wheel" >"$scratch/auditwheel" 2>"$scratch/err" || fail "auditwheel: $(cat "$scratch/err")"
found=$(python3 -c '
import json, sys
found = json.load(sys.stdin)
print(found["sym_tag"], *sorted(found["external_libs"]))' <"$scratch/auditwheel")
case $found in
manylinux_2_1[0-9]_* | manylinux_2_2[0-8]_*) ;;
*) fail "auditwheel: its symbols: expected manylinux_2_28 or older, got $found" ;;
esac
same 'libraries that are not part of manylinux' 'libcuda.so.1 libnvidia-ml.so.1' "${found#* }"
bytes=$(wc -c <"$wheel")
[ "$bytes" -le $((6 << 20)) ] || fail "the wheel has $bytes bytes, more than 6 MiB"
make --no-print-directory -s run-wheel BUILD="$build" >/dev/null
cmp "$wheel" "$TMPDIR/$name" || fail 'two builds of the wheel differ'

# has_trained LOG: it is what a training under a limit of 64MiB says
has_trained() {
	has "the training" "$(cat "$1")" 'steps=1080 accuracy=96.67'
	has "the summary" "$(cat "$1")" 'GPU at most 64.0 MiB'
}
training='run --softgpu --memory 64MiB train_mlp --scale 4'

# uvx and pipx, by the package's own name.
export HOME="$scratch/home" UV_NO_CONFIG=1 UV_OFFLINE=1 PIP_NO_INDEX=1
mkdir "$HOME"
# shellcheck disable=SC2086
"$bin/uv" tool run --python "$(command -v python3)" --from "$wheel" gpu-spillway $training >"$scratch/uvx" 2>&1 ||
	fail "uvx: $(cat "$scratch/uvx")"
has_trained "$scratch/uvx"
PIPX_HOME=$HOME/pipx PIPX_BIN_DIR=$HOME/bin USE_EMOJI=0 "$bin/pipx" install --backend uv "$wheel" >"$scratch/pipx" 2>&1 ||
	fail "pipx: $(cat "$scratch/pipx")"
for command in spillway gpu-spillway; do
	# shellcheck disable=SC2086
	"$HOME/bin/$command" $training >"$scratch/pipx" 2>&1 || fail "pipx, $command: $(cat "$scratch/pipx")"
	has_trained "$scratch/pipx"
done

# README's lines that train, in an environment where scripts of readme.sh look for one.
# shellcheck source=tests/packages/readme.sh
. tests/packages/readme.sh
need_root bullseye python3 python3-venv
in_root "
	python3 -m venv ~/.local
	~/.local/bin/pip install --quiet --no-index /mnt/$name
	export PATH=~/.local/bin:\$PATH
	spillway --version
	cp /mnt/train.py .
	sh -eu /mnt/trains
	spillway doctor >/root/doctor
	grep -e '^--  driver: no CUDA driver is installed here' /root/doctor
	test -e ~/.local/share/man/man1/spillway-run.1
	pip uninstall --quiet --yes gpu-spillway
	! find ~/.local | grep spillway" >"$scratch/debian" 2>&1 || fail "Debian 11: $(cat "$scratch/debian")"
trains "$scratch/debian"

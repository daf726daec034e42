#!/bin/sh
# SPDX-License-Identifier: MIT
# The page of spillway web in Chromium, beside two trainings on the software GPU and, for root, one
# of another user. Tested are its contents, scripts that it does not run, and axe's findings. The
# pictures are left in BUILD/packages/page for people.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/packages/roots.sh
. tests/packages/roots.sh
command -v chromium >/dev/null || skip 'chromium is not installed (apt-get install chromium)'
axe=build/packages/axe
if [ ! -e $axe/axe.js ]; then
	mkdir -p $axe
	build/packages/venv/bin/pip --disable-pip-version-check --quiet --no-input download --no-deps -d $axe \
		axe-playwright-python==0.1.8 >"$scratch/pip" 2>&1 || skip "axe cannot be had: $(tail -n 1 "$scratch/pip")"
	python3 -c '
import glob, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0])
name = next(name for name in wheel.namelist() if name.endswith("axe.min.js"))
open(sys.argv[1] + "/axe.js", "wb").write(wheel.read(name))' $axe
fi
mkdir -p "$build/packages/page" "$SPILLWAY_NODE_DIR"
SOFTGPU_MEMORY=288MiB # so that a quarter of the bar is visible, and an idle job lends
export SOFTGPU_MEMORY

# Its command line is what another user might write.
evil=$(printf '<img src=x onerror=window.owned=1>"'\''\342\200\256')
other=
if [ "$(id -u)" -eq 0 ] && setpriv --reuid 65533 --regid 65533 --clear-groups true 2>/dev/null; then
	other=65533
	common=$(mktemp -d /dev/shm/spillway-test.XXXXXX) # where both users come to
	trap 'end_started; rm -rf "$common"' EXIT
	chmod 755 "$common"
	mkdir "$common/tree"
	cp -r "$spillway" "$build/lib" "$build/softgpu" "$build/clients/train_mlp" "$build/clients/train_kernels.ptx" \
		"$build/clients/digits.csv" "$common/tree/"
	chmod -R a+rX "$common/tree"
	SPILLWAY_NODE_DIR=$common/node
	SOFTGPU_STATE_DIR=$common/gpu
	install -d -m 1777 "$SPILLWAY_NODE_DIR" "$SOFTGPU_STATE_DIR"
	install -d -m 700 -o $other "$common/state"
fi
cp "$build/clients/train_mlp" "$scratch/$evil"
cp "$build/clients/train_kernels.ptx" "$build/clients/digits.csv" "$scratch/"
begin() { # begin NAME OPTION... PROGRAM ARGUMENT...
	name=$1
	shift
	"$spillway" run --softgpu --name "$name" "$@" >"$scratch/$name" 2>&1 &
	steps_seen() { "$spillway" stat --json "$name" | grep -q '"steps":[1-9]' || ! kill -0 $!; }
	until_true $patience steps_seen && kill -0 $! || fail "$name: $(tail -n 3 "$scratch/$name")"
}
"$spillway" run --softgpu --name ended "$build/clients/train_mlp" --epochs 1 >"$scratch/ended" 2>&1 || fail "$(cat "$scratch/ended")"
SPILLWAY_LABELS=team=vision begin resnet --memory 40MiB --share 60 "$build/clients/train_mlp" --scale 4 --epochs 1000000
begin bert --memory 96MiB --share 40 "$scratch/$evil" --scale 3 --epochs 1000000

# Two idle jobs: a notebook that lends, and one that was refused memory.
idle() { # idle NAME OPTION... -- ARGUMENT...: a program that holds memory
	name=$1
	shift
	options=
	while [ "$1" != -- ]; do options="$options $1" && shift; done
	shift
	# shellcheck disable=SC2086 # options
	"$spillway" run --softgpu --name "$name" $options "$build/tests/e2e/allocate" "$@" --hold-ms 100000000 --ready "$scratch/$name.ready" >"$scratch/$name" 2>&1 &
	until_true $patience test -e "$scratch/$name.ready" || fail "$name: $(cat "$scratch/$name")"
}
idle notebook --idle-yield 1s -- --mib 8 --count 8
idle refused --memory 16MiB --host-memory 10MiB -- --mib 8 --count 8
if [ -n "$other" ]; then
	# A label has no such characters, but its segment is that user's to write.
	label=team=$(printf '%075d' 0 | tr 0 v)
	setpriv --reuid $other --regid $other --clear-groups env SPILLWAY_STATE_DIR="$common/state" SPILLWAY_LABELS="$label" HOME="$common" \
		"$common/tree/spillway" run --softgpu --name theirs --memory 40MiB "$common/tree/train_mlp" --scale 3 --epochs 1000000 \
		>"$scratch/theirs" 2>&1 &
	is_there() { ls "$SPILLWAY_NODE_DIR"/job-$other-theirs-*.page 2>/dev/null && "$spillway" stat --json theirs | grep -q '"steps":[1-9]'; }
	until_true $patience is_there || fail "theirs: $(tail -n 3 "$scratch/theirs")"
	python3 - "$common/state/theirs.segment" "$label" "$evil" <<'END' || fail 'no label in the segment'
import os, sys
with open(sys.argv[1], "r+b") as file:
    label, evil = os.fsencode(sys.argv[2]), os.fsencode(sys.argv[3])
    at = file.read().index(label)
    file.seek(at)
    file.write(evil + b" " * (len(label) - len(evil)))
END
fi

# A program without Spillway, whose memory is no job's.
LD_LIBRARY_PATH=$softgpu "$build/tests/e2e/allocate" --mib 16 --count 1 --hold-ms 100000000 --ready "$scratch/ready" >"$scratch/none" 2>&1 &
until_true $patience test -e "$scratch/ready" || fail "no program without Spillway: $(cat "$scratch/none")"
control=--control
[ "$(id -u)" -ne 0 ] || control=--control-as-root
LD_LIBRARY_PATH=$softgpu "$spillway" web >"$scratch/web" 2>&1 &
LD_LIBRARY_PATH=$softgpu "$spillway" stat --listen 127.0.0.1:0 --page >"$scratch/exporter" 2>&1 &
exporter=$!
LD_LIBRARY_PATH=$softgpu "$spillway" web $control >"$scratch/control" 2>&1 &
until_true $patience grep -q '#' "$scratch/web" || fail "$(cat "$scratch/web")"
until_true $patience grep -q '#' "$scratch/exporter" || fail "$(cat "$scratch/exporter")"
until_true $patience grep -q '#' "$scratch/control" || fail "$(cat "$scratch/control")"
OTHER=$other SOFTGPU=$softgpu PYTHONDONTWRITEBYTECODE=1 python3 tests/packages/page.py "$scratch" "$spillway" $exporter $axe/axe.js "$build/packages/page" ||
	fail 'see above'

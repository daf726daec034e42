#!/bin/sh
# SPDX-License-Identifier: MIT
# `spillway run --softgpu python3 train.py` finds the packages of PyTorch and TensorFlow. It
# generates once the libraries of NVIDIA's that they want, and sets their variables where the user
# has not.
. tests/e2e/tool.sh
mkdir -p "$tree/softgpu/cuda/bin" "$TMPDIR/packages/triton/backends/nvidia/lib" "$TMPDIR/packages/torch/lib" \
	"$TMPDIR/packages/tensorflow" "$TMPDIR/bin"
cp "$build/tests/e2e/empty.so" "$tree/softgpu/libcuda.so.1"
cp "$build/tests/e2e/empty.so" "$tree/softgpu/libcusparse.so.12"
cp "$build/softgpu/cuda/bin/ptxas" "$tree/softgpu/cuda/bin/"
cp "$build/softgpu/libsoftgpu-node.so" "$tree/softgpu/"
echo bitcode >"$TMPDIR/packages/triton/backends/nvidia/lib/libdevice.10.bc"
for package in torch tensorflow triton; do
	echo 'raise SystemExit("imported")' >"$TMPDIR/packages/$package/__init__.py"
done
cp "$build/tests/unit/needing.so" "$TMPDIR/packages/torch/lib/libtorch_cuda.so"
export XDG_CACHE_HOME="$TMPDIR/cache" SPILLWAY_LOG=debug
cache=$XDG_CACHE_HOME/spillway/stand-ins
unset LD_LIBRARY_PATH XLA_FLAGS SOFTGPU_ATTRIBUTES TRITON_OVERRIDE_ARCH PYTHONPATH
cat >"$TMPDIR/told.py" <<'END'
#!/usr/bin/env python3
import os
for name in ("LD_LIBRARY_PATH", "XLA_FLAGS", "SOFTGPU_ATTRIBUTES", "TRITON_OVERRIDE_ARCH"):
    print(f"{name}={os.environ.get(name, '')}")
END
chmod 755 "$TMPDIR/told.py"

# Without these packages there is nothing to generate.
expect 0 "$spillway" run --softgpu python3 "$TMPDIR/told.py"
says "$out" "^LD_LIBRARY_PATH=$tree/softgpu$"
says "$out" '^SOFTGPU_ATTRIBUTES=$'
[ ! -e "$cache" ] || fail "a folder was made for no package"

# PyTorch alone: the device is as ever.
export PYTHONPATH="$TMPDIR/packages"
mv "$TMPDIR/packages/tensorflow" "$TMPDIR/tensorflow"
expect 0 "$spillway" run --softgpu python3 "$TMPDIR/told.py"
says "$out" "^LD_LIBRARY_PATH=$tree/softgpu:$cache/torch-[0-9a-f]{16}$"
says "$out" '^SOFTGPU_ATTRIBUTES=$'
says "$out" '^TRITON_OVERRIDE_ARCH=$'

# TensorFlow's libraries are those that it opens by name, but for what the software GPU has.
mv "$TMPDIR/tensorflow" "$TMPDIR/packages/"
expect 0 "$spillway" run --softgpu "$TMPDIR/told.py"
says "$out" "^LD_LIBRARY_PATH=$tree/softgpu:$cache/torch-tensorflow-[0-9a-f]{16}$"
says "$out" "^XLA_FLAGS=--xla_gpu_cuda_data_dir=$cache/torch-tensorflow-[^ ]*/cuda "
says "$out" '^SOFTGPU_ATTRIBUTES=COMPUTE_CAPABILITY_MAJOR=9,COMPUTE_CAPABILITY_MINOR=0$'
says "$out" '^TRITON_OVERRIDE_ARCH=sm80$'
says "$err" "info: making stand-ins for libraries of NVIDIA's in $cache/torch-tensorflow-"
says "$err" 'debug: --softgpu sets TRITON_OVERRIDE_ARCH=sm80$'
made=$(echo "$cache"/torch-tensorflow-*)
for file in libcufft.so.11 libcusolver.so.11 libnccl.so.2 cuda/bin/ptxas cuda/nvvm/libdevice/libdevice.10.bc; do
	[ -s "$made/$file" ] || fail "there is no $file: $(ls "$cache"/*)"
done
[ ! -e "$made/libcusparse.so.12" ] || fail "libcusparse.so.12 hides the software GPU's"
[ "$(find "$cache" -mindepth 1 -maxdepth 1 | wc -l)" -eq 2 ] || fail "more than two folders: $(ls "$cache")"

# Once; also behind another program. What the user has set stays.
expect 0 env SOFTGPU_ATTRIBUTES=WARP_SIZE=32,COMPUTE_CAPABILITY_MAJOR=10 TRITON_OVERRIDE_ARCH=sm75 \
	LD_LIBRARY_PATH=/mine XLA_FLAGS=--xla_gpu_cuda_data_dir=/mine \
	"$spillway" run --softgpu env LATER=1 python3 "$TMPDIR/told.py"
says "$out" "^LD_LIBRARY_PATH=$tree/softgpu:/mine:$cache/torch-tensorflow-[0-9a-f]{16}$"
says "$out" '^XLA_FLAGS=--xla_gpu_cuda_data_dir=/mine --xla_gpu_autotune_level=0 '
says "$out" '^SOFTGPU_ATTRIBUTES=WARP_SIZE=32,COMPUTE_CAPABILITY_MAJOR=10,COMPUTE_CAPABILITY_MINOR=0$'
says "$out" '^TRITON_OVERRIDE_ARCH=sm75$'
says_not "$err" 'making stand-ins'
says_not "$err" 'sets TRITON_OVERRIDE_ARCH'

expect 0 "$spillway" run --softgpu timeout 60 "$TMPDIR/told.py"
says "$out" '^TRITON_OVERRIDE_ARCH=sm80$'

# The Python that runs is asked, whatever starts it: a line of a shell, or a launcher with an
# environment of its own. It keeps its words and the variables of a Python that it starts.
expect 0 "$spillway" run --softgpu sh -c "cd / && python3 '$TMPDIR/told.py'"
says "$out" "^LD_LIBRARY_PATH=$tree/softgpu:$cache/torch-tensorflow-[0-9a-f]{16}$"
says "$out" '^TRITON_OVERRIDE_ARCH=sm80$'
python3 -m venv --without-pip "$TMPDIR/venv"
echo "$TMPDIR/packages" >"$(echo "$TMPDIR"/venv/lib/python3*/site-packages)/wheels.pth"
printf '#!/bin/sh\nshift\nPATH=%s/venv/bin:$PATH exec "$@"\n' "$TMPDIR" >"$TMPDIR/bin/uv"
chmod 755 "$TMPDIR/bin/uv"
cat >"$TMPDIR/nested.py" <<'END'
import os, subprocess, sys
print(f"{sys.argv[1:]} in {sys.prefix}", flush=True)
sys.exit(subprocess.call([sys.executable, sys.argv[1]]))
END
expect 0 env -u PYTHONPATH "$spillway" run --softgpu "$TMPDIR/bin/uv" run python3 "$TMPDIR/nested.py" "$TMPDIR/told.py" 'two words'
says "$out" "^\['$TMPDIR/told.py', 'two words'\] in $TMPDIR/venv$"
says "$out" "^LD_LIBRARY_PATH=$tree/softgpu:$cache/torch-tensorflow-[0-9a-f]{16}$"
says "$out" "^XLA_FLAGS=--xla_gpu_cuda_data_dir=$cache/torch-tensorflow-[^ ]*/cuda "
expect 3 "$spillway" run --softgpu sh -c 'python3 -c "raise SystemExit(3)"'

# Another version of a wheel gets libraries of its own.
echo >>"$TMPDIR/packages/torch/lib/libtorch_cuda.so"
expect 0 "$spillway" run --softgpu python3 "$TMPDIR/told.py"
says "$err" 'making stand-ins'

# Where they cannot be kept, that is said, and the program runs.
echo >"$TMPDIR/file"
expect 0 env XDG_CACHE_HOME="$TMPDIR/file" "$spillway" run --softgpu python3 "$TMPDIR/told.py"
says "$err" "^spillway: stand-ins for libraries of NVIDIA's cannot be made: .*: Not a directory$"
expect 0 env -u HOME -u XDG_CACHE_HOME "$spillway" run --softgpu python3 "$TMPDIR/told.py"
says "$err" 'cannot be made: neither HOME nor XDG_CACHE_HOME names a folder'

# doctor says the same.
"$spillway" doctor python3 >"$out" 2>"$err" || :
says "$out" "^ok  software GPU: spillway run --softgpu sets LD_LIBRARY_PATH=$cache/torch-tensorflow-[0-9a-f]{16}$"
says "$out" '^ok  software GPU: spillway run --softgpu sets TRITON_OVERRIDE_ARCH=sm80$'
says_not "$out" 'libdevice'
# Without Triton's wheel TensorFlow lacks a file.
mv "$TMPDIR/packages/triton" "$TMPDIR/triton"
"$spillway" doctor "$TMPDIR/told.py" >"$out" 2>"$err" || :
says "$out" '^--  software GPU: TensorFlow has no libdevice.10.bc, which is in Triton'
says "$out" '^      try: /[^ ]*/python3[^ ]* -m pip install triton$'
finish

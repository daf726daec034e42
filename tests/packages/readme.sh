# SPDX-License-Identifier: MIT
# Sourced: the lines of README's Install section, to be run as they are.
# shellcheck shell=sh
sed -n '/^## Install/,/^## /s/^    //p' README.md >"$TMPDIR/lines"
same 'lines under Install' 'pipx apt-get make spillway spillway' "$(cut -d ' ' -f 1 "$TMPDIR/lines" | paste -s -d ' ')"
line() { sed -n "$1p" "$TMPDIR/lines"; }

# "python train.py" is any program that uses the driver.
cat >"$TMPDIR/train.py" <<'END'
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(100 << 20)) == 0
print("trained")
END
# The two lines that train, as a script of this shell.
cat >"$TMPDIR/trains" <<END
mkdir -p /tmp/python
ln -sf "\$(command -v python3)" /tmp/python/python
shim=\$(dirname "\$(find ~/.local /usr/lib -path '*/softgpu/libcuda.so.1' | head -n 1)")
LD_LIBRARY_PATH=\$shim PATH=/tmp/python:\$PATH
export LD_LIBRARY_PATH PATH
$(line 4)
unset LD_LIBRARY_PATH
$(line 5) 2>&1
END
# trains LOG: it is what the two lines say
trains() {
	has 'the first line' "$(cat "$1")" trained
	has 'the second line' "$(cat "$1")" 'steps=1080 accuracy=96.67'
	has 'its summary' "$(cat "$1")" 'GPU at most 64.0 MiB'
}

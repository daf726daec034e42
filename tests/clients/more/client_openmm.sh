#!/bin/sh
# SPDX-License-Identifier: MIT
# OpenMM from PyPI, unmodified, compiles its kernels by NVRTC, and judges. Its CUDA platform is
# linked to cuFFT, which no force here uses: a library of that name answers CUFFT_NOT_SUPPORTED.
set -eu
. tests/e2e/lib.sh
. tests/clients/more/lib.sh
command -v "${CC:-cc}" >/dev/null || skip "no C compiler, which makes the library of cuFFT's name"
plugin=$more/packages/OpenMM.libs/lib/plugins/libOpenMMCUDA.so
nm -D --undefined-only "$plugin" | sed -n 's/.* \(cufft[A-Za-z0-9_]*\).*/int \1(void) { return 16; }/p' \
	>"$scratch/cufft.c"
{
	echo 'libcufft.so.12 {'
	sed -n 's/^int \(cufft[A-Za-z0-9_]*\).*/\1;/p' "$scratch/cufft.c"
	echo '};'
} >"$scratch/cufft.map"
mkdir "$scratch/fft"
"${CC:-cc}" -shared -fPIC -Wl,-soname,libcufft.so.12 -Wl,--version-script="$scratch/cufft.map" \
	-o "$scratch/fft/libcufft.so.12" "$scratch/cufft.c"
export LD_LIBRARY_PATH="$scratch/fft:$LD_LIBRARY_PATH"
member "OpenMM" "$(version openmm)" "moves 3,375 atoms of argon"
program="$python $here/openmm_moves.py"
judge

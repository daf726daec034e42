#!/bin/sh
# SPDX-License-Identifier: MIT
# JAX, CuPy, Triton and Numba, where they are installed. A small program of each gives the same
# result natively, with the whole GPU as its limit, and with half the memory that it used.
set -eu
. tests/gpu/needs.sh
need_gpu
need_python
[ "$GPU" = real ] || skip "frameworks have machine code alone: they need a real GPU"
found=0 bad=0

# one NAME: a line for the table; failures do not keep the others from being run
one() {
	set -- "$1" "$PYTHON" tests/gpu/start_framework.py "$1"
	name=$1
	shift
	alone=$(timeout 60 "$@" 2>"$TMPDIR/said") || return 1
	echo "$alone"
	with_all "$name-all" "$(echo "$alone" | field checksum)" timeout 60 "$@"
	limit=$((for_good + $(echo "$alone" | field working_set) / 2))
	limited=$(timeout 90 "$BUILD/spillway" run --name "$name" --memory ${limit}B "$@" 2>"$TMPDIR/said") || return 1
	echo "$limited"
	same_within_limit "$name" $limit "$(echo "$alone" | field checksum)" "$(echo "$limited" | field checksum)" "$for_good"
}

for name in jax cupy triton numba; do
	"$PYTHON" -c "import $name" 2>"$TMPDIR/why" || {
		echo "$name: not here: $(tail -n 1 "$TMPDIR/why")"
		continue
	}
	found=$((found + 1))
	version=$("$PYTHON" -c "import $name; print($name.__version__)" 2>/dev/null) || version=
	if (one $name); then framework $name "$version" ok; else
		framework $name "$version" failed
		bad=$((bad + 1))
		echo "$name: $(tail -n 5 "$TMPDIR/said")"
	fi
done
[ $found -gt 0 ] || skip "none of them is installed for $PYTHON"
[ $bad -eq 0 ] || fail "$bad of $found failed"

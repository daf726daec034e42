#!/bin/sh
# SPDX-License-Identifier: MIT
# Every sample runs on the software GPU, alone and under the shim with little memory and a part of
# the GPU's time. All its checks pass, and both runs print the same.
set -eu
: "${BUILD:=build}" "${TMPDIR:?set by tests/run}"
export SOFTGPU_STATE_DIR="$TMPDIR/softgpu" SOFTGPU_CONTEXT_MEMORY=1M
mkdir -p "$SOFTGPU_STATE_DIR"
failures=0

# Between them the samples have up to 12 MiB at once: with this limit the larger ones spill. Memory
# that other processes can map does not spill.
limit=6MiB

# reason SAMPLE: why the software GPU cannot run it; empty for those that it must
reason() {
	case $1 in
	textures) echo 'not supported by this driver: cuTexObjectCreate(&texture, &resource, &description, NULL)' ;;
	esac
}

# run WHERE SAMPLE COMMAND...: its output in $TMPDIR/SAMPLE.WHERE
run() {
	where=$1 sample=$2 rc=0
	shift 2
	"$@" >"$TMPDIR/$sample.$where" 2>"$TMPDIR/stderr" || rc=$?
	expected=0
	[ -z "$(reason "$sample")" ] || expected=77
	if [ $rc -ne $expected ]; then
		echo "FAILED: $sample ($where): exit status $rc, expected $expected"
		sed 's/^/  /' "$TMPDIR/$sample.$where" "$TMPDIR/stderr"
		failures=$((failures + 1))
	fi
}

for source in tests/clients/samples/*.c; do
	sample=${source##*/}
	sample=${sample%.c}
	[ "$sample" != sample ] || continue # what they share
	case $sample:" ${MODULES-ipc} " in ipc:*" ipc "*) ;; ipc:*) continue ;; esac
	program=$BUILD/clients/samples/$sample
	LD_LIBRARY_PATH=$BUILD/softgpu run direct "$sample" "$program"
	run limited "$sample" "$BUILD/spillway" run --softgpu --quiet --name "sample-$sample" \
		--memory "$limit" --share 60 "$program"
	if [ -n "$(reason "$sample")" ]; then
		if ! grep -qxF "$(reason "$sample")" "$TMPDIR/$sample.direct"; then
			echo "FAILED: $sample: expected '$(reason "$sample")'"
			failures=$((failures + 1))
		fi
		echo "$sample: $(reason "$sample")"
	elif ! cmp -s "$TMPDIR/$sample.direct" "$TMPDIR/$sample.limited"; then
		echo "FAILED: $sample: other output under a limit"
		diff "$TMPDIR/$sample.direct" "$TMPDIR/$sample.limited" | sed 's/^/  /' || true
		failures=$((failures + 1))
	else
		echo "$sample: $(tail -n 1 "$TMPDIR/$sample.direct")"
	fi
done

# The limit was felt: what did not fit was spilled.
spilled=$("$BUILD/spillway" stat sample-vector_add --json | sed 's/.*"spilled_bytes":\([0-9]*\).*/\1/')
if [ "${spilled:-0}" -eq 0 ]; then
	echo "FAILED: nothing spilled"
	failures=$((failures + 1))
fi
# A graph with a loop in it is one launch, however often the loop runs; it waits for its turn.
launched=$("$BUILD/spillway" stat sample-conditional --json | sed 's/.*"graph_launches":\([0-9]*\).*/\1/')
if [ "${launched:-0}" -ne 6 ]; then
	echo "FAILED: conditional: ${launched:-0} graph launches counted, expected 6"
	failures=$((failures + 1))
fi
[ $failures -eq 0 ]

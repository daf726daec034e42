#!/bin/sh
# SPDX-License-Identifier: MIT
# Bad input never stops the user's process: one line names file, line, value and the expected form.
# The job goes on with the good settings, and stat shows the error.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate

# goes_on WHAT EXPECTED...: the program under the shim succeeds, and stderr is one line with
# EXPECTED
goes_on() {
	what=$1
	shift
	under_shim "$allocate" --count 4 >"$scratch/out" 2>"$scratch/err" || fail "$what: exit status $?"
	has "$what" "$(cat "$scratch/out")" "ok bad=0"
	same "$what: lines on stderr" 1 "$(grep -c . "$scratch/err")"
	for part in "$@"; do
		has "$what" "$(cat "$scratch/err")" "$part"
	done
}

ini=$scratch/bad.ini
export SPILLWAY_CONFIG="$ini" SPILLWAY_JOB=bad
stat_says() { case $("$spillway" stat bad) in *"$1"*) ;; *) return 1 ;; esac; }
while IFS='|' read -r text line expected; do
	printf '%b' "$text" >"$ini"
	goes_on "$text" "$ini:$line" "$expected"
	# A running job shows it in stat.
	rm -f "$scratch/ready"
	LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$allocate" --hold-ms 600000 --ready "$scratch/ready" \
		>/dev/null 2>&1 </dev/null &
	running=$!
	until_true $patience test -e "$scratch/ready" || fail "$text: not running"
	until_true $patience stat_says "$expected" || fail "$text: stat does not show it: $("$spillway" stat bad)"
	kill -KILL $running
	wait $running || true
done <<'EOF'
[gpu]\nmemory = 8Gx\n|2|memory = 8Gx: expected a size
[gpu]\nmemory = -1\n|2|memory = -1: expected a size
[gpu]\nmemory = 120%\n|2|memory = 120%: expected
[gpu]\nshare = 101\n|2|share = 101: expected a percentage
[gpu]\n\n; a comment\nshare = fast\n|4|share = fast: expected a percentage
[gpu]\nspill = sometimes\n|2|spill = sometimes: expected
[gpu]\nmemory_limt = 8GiB\n|2|memory_limt
[gpus]\nmemory = 8GiB\n|1|[gpus]
[gpu]\nmemory = 1GiB\nmemory = 2GiB\n|3|memory
memory = 8GiB\n|1|memory
EOF

# Good limits in the environment hold although the file is bad.
printf '[gpu]\nshare = 101\n' >"$ini"
SPILLWAY_MEMORY=16MiB goes_on "environment beside a bad file" "$ini:2" "that does not count, all else does"
has "environment beside a bad file" "$(cat "$scratch/out")" "total=16777216"

# SPILLWAY_DISABLE is a yes or a no.
printf '[gpu]\nmemory = 16MiB\n' >"$ini"
has "SPILLWAY_DISABLE=no" "$(SPILLWAY_DISABLE=no under_shim "$allocate" --count 1)" "total=16777216"
has "SPILLWAY_DISABLE=yes" "$(SPILLWAY_DISABLE=yes under_shim "$allocate" --count 1)" "total=2147483648"
SPILLWAY_DISABLE=perhaps goes_on "SPILLWAY_DISABLE" "SPILLWAY_DISABLE" "perhaps" "expected yes"

rm "$ini"
goes_on "missing file" "$ini" "No such file"
mkdir "$ini"
goes_on "a folder" "$ini"
rmdir "$ini"
unset SPILLWAY_CONFIG
SPILLWAY_MEMORY=010 goes_on "environment" "SPILLWAY_MEMORY" "010" "expected a size"
SPILLWAY_MEMORY=20 goes_on "environment" "SPILLWAY_MEMORY = 20: no unit; did you mean 20GiB?"
SPILLWAY_SHARE=0.7 goes_on "environment" "SPILLWAY_SHARE = 0.7: less than 1 %; did you mean 70%?"
# HAMi's variables have a unit of their own: bytes.
CUDA_DEVICE_MEMORY_LIMIT=16777216 under_shim "$allocate" --count 1 >"$scratch/out" 2>"$scratch/err"
has "HAMi's bytes" "$(cat "$scratch/out" "$scratch/err")" "total=16777216"
SPILLWAY_SHARE=1e2 goes_on "environment" "SPILLWAY_SHARE" "1e2" "expected a percentage"

# A segment of another version is left alone while a process has it; the limit holds for the process
# by itself.
version() { od -An -tu4 -j8 -N4 "$SPILLWAY_STATE_DIR/bad.segment" | tr -d ' '; }
same "version" "$(sed -n 's/.*SEGMENT_VERSION = \([0-9]*\),.*/\1/p' core/state/segment.h)" "$(version)"
printf '\143' | dd of="$SPILLWAY_STATE_DIR/bad.segment" bs=1 seek=8 conv=notrunc 2>/dev/null
export SPILLWAY_MEMORY=8MiB
exec 9<>"$SPILLWAY_STATE_DIR/bad.segment" # as a mapping would
goes_on "other version" "bad.segment" "99" "expected"
has "other version: still limited" "$(cat "$scratch/out")" "total=8388608"
same "version after" 99 "$(version)"
"$spillway" stat bad >"$scratch/out" 2>&1 && fail "stat took a segment of version 99"
has "stat of another version" "$(cat "$scratch/out")" "99"
SPILLWAY_JOB=bad "$spillway" doctor --clean >"$scratch/out" 2>&1 || true
same "after doctor --clean" 99 "$(version)"
exec 9>&-

# A file that is no segment at all, and a state directory that cannot be used.
head -c 4096 /dev/urandom >"$SPILLWAY_STATE_DIR/bad.segment"
goes_on "random bytes" "bad.segment"
rm "$SPILLWAY_STATE_DIR/bad.segment"
real=$SPILLWAY_STATE_DIR
ln -s "$real" "$scratch/link"
SPILLWAY_STATE_DIR=$scratch/link goes_on "a symlink as state directory" "$scratch/link"

# run refuses to start instead.
printf '[gpu]\nshare = 101\n' >"$ini"
rc=0
"$spillway" run --softgpu --config "$ini" "$allocate" >"$scratch/out" 2>&1 || rc=$?
same "run with a bad file" 78 $rc
has "run with a bad file" "$(cat "$scratch/out")" "$ini:2: share = 101: expected a percentage"

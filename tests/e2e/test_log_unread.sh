#!/bin/sh
# SPDX-License-Identifier: MIT
# No process reads the pipe on stderr, or the log file that is a pipe. The program goes on and ends.
# Unread lines are counted, and the next line that is read gives their number.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
fifo=$scratch/fifo

# fill: until no byte more goes in
fill() {
	dd if=/dev/zero of="$fifo" bs=1 count=2000000 oflag=nonblock 2>/dev/null && fail "the pipe takes everything"
	:
}

# goes_on WHAT COMMAND...: the program ends well
goes_on() {
	what=$1
	shift
	timeout $patience "$@" >"$scratch/out" || fail "$what: exit status $?"
	has "$what" "$(cat "$scratch/out")" "ok bad=0"
}

mkfifo "$fifo"
exec 3<>"$fifo"
fill
export SPILLWAY_LOG=debug SPILLWAY_MEMORY=1MiB SPILLWAY_JOB=unread
goes_on "stderr that nobody reads" env LD_PRELOAD="$shim" LD_LIBRARY_PATH="$softgpu" "$allocate" --mib 1 --count 16 2>&3
goes_on "the same with the tool" "$spillway" run --softgpu "$allocate" --mib 1 --count 16 2>&3
# as a log file, which is opened without waiting for a reader
SPILLWAY_LOG=debug:$fifo goes_on "a log that nobody reads" env LD_PRELOAD="$shim" LD_LIBRARY_PATH="$softgpu" "$allocate" --mib 1 --count 16 2>"$scratch/err"
same "on stderr instead" "" "$(cat "$scratch/err")"
exec 3>&-
SPILLWAY_LOG=debug:$fifo goes_on "a log without a reader" env LD_PRELOAD="$shim" LD_LIBRARY_PATH="$softgpu" "$allocate" --mib 1 --count 16 2>"$scratch/err"
has "on stderr instead" "$(cat "$scratch/err")" "cannot open $fifo: No such device or address; using stderr"

# A terminal's or a file's flags are the program's and its neighbours'.
exec 3<>"$fifo"
before=$(sed -n 's/^flags:[[:space:]]*//p' "/proc/$$/fdinfo/3")
goes_on "stderr with room" env LD_PRELOAD="$shim" LD_LIBRARY_PATH="$softgpu" "$allocate" --count 4 2>&3
same "flags of stderr" "$before" "$(sed -n 's/^flags:[[:space:]]*//p' "/proc/$$/fdinfo/3")"

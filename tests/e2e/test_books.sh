#!/bin/sh
# SPDX-License-Identifier: MIT
# Device memory is taken in one way after the other. At each step Spillway's figure for the job is,
# to the byte, that of the software GPU's own books for the process. It is as much as was requested,
# and all of it comes back. Memory that another job shares is also charged to the job that opens it.
#
# Slack: objects smaller than the driver's unit of 2 MiB share one, which Spillway cannot see. Each
# step states its slack.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
export SOFTGPU_CONTEXT_MEMORY=8M
books=$build/tests/e2e/books

# used JOB
used() { "$spillway" stat "$1" --json | sed 's/,"processes":.*//; s/.*"device_used":\([0-9]*\).*/\1/'; }

pool() { "$spillway" stat "$1" --json | sed 's/,"processes":.*//; s/.*"device_pool":\([0-9]*\).*/\1/'; }

# grown JOB START GROWTH PID: spare chunks aside, which come and go by themselves
grown() { [ "$(($(truth "$4") - $(pool "$1") - $2))" = "$3" ]; }

# truth PID: what the device's books say of a process
truth() { "$softgpu/softgpu-truth" | awk -v pid="$1" '$1 == "0" && $2 == pid { print $3; found = 1 } END { if (!found) print 0 }'; }

# agree JOB: spare chunks may come or go between the two looks
agree() {
	has=$(truth "$pid")
	says=$(($(used "$1") - imported))
	[ "$says" -le "$has" ] && [ "$((has - says))" -le "$slack" ]
}

# follow JOB: judges the steps on descriptor 4, answers on 3
follow() {
	while read -r scenario step growth slack <&4; do
		if [ "$scenario" = handle ]; then
			open_it "$step"
			echo >&3
			continue
		fi
		if [ "$scenario" = pid ]; then
			pid=$step
			echo >&3
			continue
		fi
		where="$scenario $step"
		imported=0
		[ "$where" != "open opened" ] || imported=8388608 # which its owner has in the device's books
		until_true $patience agree "$1" || fail "$where: the job uses $says bytes, the device says $has"
		if [ "$step" = begin ]; then
			start=$((has - $(pool "$1")))
			took=0
		fi
		[ "$growth" = -1 ] || until_true $patience grown "$1" "$start" "$growth" "$pid" ||
			fail "$where: grown by $((has - start)), spares included; expected $growth"
		[ "$has" -le "$start" ] || took=1
		[ "$step" != end ] || ended="$ended $scenario:$took"
		echo >&3
	done
}

# run JOB LIMIT ARGUMENT...: follows the program through
run() {
	name=$1 limit=$2
	shift 2
	mkfifo "$scratch/$name-to" "$scratch/$name-from"
	"$spillway" run --softgpu --quiet --name "$name" --memory "$limit" "$books" "$@" \
		<"$scratch/$name-to" >"$scratch/$name-from" 2>"$scratch/$name-errors" &
	job=$!
	exec 3>"$scratch/$name-to" 4<"$scratch/$name-from"
	ended=
	follow "$name"
	wait "$job" || fail "$name: exit status $?: $(cat "$scratch/$name-errors")"
}

# Another job's memory is charged to who opens it.
open_it() {
	(
		run other 1GiB open "$1"
		same "the second process" " first:1 first:1 open:0" "$ended"
	) || exit 1
	opened=1
}

opened=0
gives=" ipc:1"
built_in ipc || export GIVES_MEMORY=no gives=
run books 1GiB
same "scenarios, and whether the device had more for them" " first:1 first:1 plain:1 pitch:1 vmm:1 imported:1 async:1 \
pools:1 library:1$gives" "$ended"
same "memory was opened in a second process" "${gives:+1}" "$([ $opened = 0 ] || echo $opened)"
run limited 12MiB refused # 8 MiB of it for the context
same "under a limit" " first:1 first:1 refused:1" "$ended"

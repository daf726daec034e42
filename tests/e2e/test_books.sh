#!/bin/sh
# One way of taking device memory after the other: at each step what Spillway says the job uses is, to the byte, what the
# software GPU's own books say the process has; it is as much as was asked for, and all of it comes back. What another
# process shares is not charged a second time.
#
# Slack: what is smaller than the driver's unit of 2 MiB shares one, which Spillway cannot see; it is said step by step.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
export SOFTGPU_CONTEXT_MEMORY=8M
books=$build/tests/e2e/books

# used JOB
used() { "$spillway" stat "$1" --json | sed 's/,"processes":.*//; s/.*"device_used":\([0-9]*\).*/\1/'; }

# truth PID: what the device's books say of a process
truth() { "$softgpu/softgpu-truth" | awk -v pid="$1" '$1 == "0" && $2 == pid { print $3; found = 1 } END { if (!found) print 0 }'; }

# follow JOB: judges the steps on descriptor 4, answers on 3
follow() {
	while read -r scenario name growth slack <&4; do
		if [ "$scenario" = handle ]; then
			open_it "$name"
			echo >&3
			continue
		fi
		if [ "$scenario" = pid ]; then
			pid=$name
			echo >&3
			continue
		fi
		where="$scenario $name"
		has=$(truth "$pid")
		says=$(used "$1")
		if [ "$name" = begin ]; then
			start=$has
			took=0
		fi
		if [ "$says" -gt "$has" ] || [ "$((has - says))" -gt "$slack" ]; then
			fail "$where: the job uses $says bytes, the device says $has"
		fi
		[ "$growth" = -1 ] || same "$where: grown by" "$growth" "$((has - start))"
		[ "$has" -le "$start" ] || took=1
		[ "$name" != end ] || ended="$ended $scenario:$took"
		echo >&3
	done
}

# Another process's memory is not charged again to who opens it.
open_it() {
	mkfifo "$scratch/to2" "$scratch/from2"
	"$spillway" run --softgpu --quiet --name other --memory 1GiB "$books" open "$1" <"$scratch/to2" >"$scratch/from2" &
	other=$!
	(
		ended=
		exec 3>"$scratch/to2" 4<"$scratch/from2"
		follow other
		same "the second process" " first:1 first:1 open:0" "$ended"
	) || exit 1
	wait "$other" || fail "the second process: exit status $?"
	opened=1
}

ended=
opened=0
mkfifo "$scratch/to" "$scratch/from"
"$spillway" run --softgpu --quiet --name books --memory 1GiB "$books" <"$scratch/to" >"$scratch/from" &
job=$!
exec 3>"$scratch/to" 4<"$scratch/from"
follow books
wait "$job" || fail "exit status $?"
same "scenarios, and whether the device had more for them" " first:1 first:1 plain:1 pitch:1 vmm:1 async:1 \
pools:1 library:1 ipc:1" "$ended"
same "memory was opened in a second process" 1 "$opened"

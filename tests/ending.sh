# SPDX-License-Identifier: MIT
# Sourced by tests/run and by test scripts: ends the processes that a test has started, in any
# session or process group.
# shellcheck shell=sh

# end_marked TEXT: kills every process that has the text in the environment it was started with, and
# what those start meanwhile. The caller's own environment is without it.
end_marked() {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		marked=$(grep -lsF -e "$1" /proc/[0-9]*/environ) || [ -n "$marked" ] || return 0
		for each in $marked; do
			each=${each#/proc/}
			kill -KILL "${each%/environ}" 2>/dev/null || true
		done
		sleep 0.05
	done
}

# end_started: what this script has started, by the mark that mark_started gave it, and its own
# subshells, which have none
end_started() {
	unset TEST_MARK
	jobs -p >"$TMPDIR/started" 2>/dev/null || true
	while read -r started; do
		kill -KILL "$started" 2>/dev/null || true
	done <"$TMPDIR/started"
	end_marked "TEST_MARK=$mark"
}

# mark_started: from now on; a trap of its own at EXIT has to call end_started
mark_started() {
	mark=$$-$(cat /proc/sys/kernel/random/uuid)
	TEST_MARK=$mark
	export TEST_MARK
	trap end_started EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

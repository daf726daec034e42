#!/bin/sh
# SPDX-License-Identifier: MIT
# Processes that a test has started end with it, also in a session of their own. They end when the
# test fails, runs too long or is killed, and when tests/run is interrupted.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
test=$scratch/test_leaves.sh

# The test that is tried: it leaves a process, a subshell and two processes of another session.
leaves() { # leaves THEN [BEFORE]
	cat >"$test" <<-END
		#!/bin/sh
		${2:-}
		sleep 1000 &
		echo \$! >>"$scratch/left"
		(while :; do sleep 1000; done) &
		echo \$! >>"$scratch/left"
		setsid sh -c 'echo \$\$ >>"$scratch/left"; sleep 1000 & echo \$! >>"$scratch/left"; touch "$scratch/ready"; wait' &
		until [ -e "$scratch/ready" ]; do sleep 0.05; done
		[ "\$(wc -l <"$scratch/left")" -eq 4 ] || exit 2
		$1
	END
	chmod +x "$test"
	rm -f "$scratch/ready"
	: >"$scratch/left"
}

# nothing_left WHAT
is_gone() { [ -z "$(tr -d '\0' <"/proc/$1/cmdline")" ]; } # one that nobody has waited for has none, either
nothing_left() {
	while read -r pid; do
		until_true $patience is_gone "$pid" || fail "$1: left is $(tr '\0' ' ' <"/proc/$pid/cmdline")"
	done <"$scratch/left"
}

leaves "exit 1"
tests/run "$test" >"$scratch/out" && fail "a failed test has passed"
nothing_left "a test that fails"
leaves "exit 0"
tests/run "$test" >"$scratch/out" || fail "$(cat "$scratch/out")"
nothing_left "a test that passes"
leaves "sleep 1000"
TEST_TIMEOUT=1 tests/run "$test" >"$scratch/out" && fail "a test that runs too long has passed"
has "too long" "$(cat "$scratch/out")" "ran longer than 1 s"
nothing_left "a test that runs too long"
leaves 'kill -KILL $$'
tests/run "$test" >"$scratch/out" && fail "a killed test has passed"
nothing_left "a test that is killed"
leaves "sleep 1000"
tests/run "$test" >"$scratch/out" &
runner=$!
until_true $patience test -e "$scratch/ready" || fail "does not begin"
kill -TERM $runner
wait $runner && fail "tests/run that is interrupted has passed"
nothing_left "tests/run that is interrupted"

# A script by hand, without tests/run.
leaves wait ". tests/e2e/lib.sh"
"$test" &
by_hand=$!
until_true $patience test -e "$scratch/ready" || fail "does not begin"
kill -TERM $by_hand
wait $by_hand && fail "a script that is interrupted has passed"
nothing_left "a script by hand"

#!/bin/sh
# SPDX-License-Identifier: MIT
# The demo leaves nothing behind when it is told to end.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

if [ ! -e "$build/lib/libspillway.so" ]; then
	echo 'there is no shim to run it with'
	exit 77
fi
work() { find "$TMPDIR" -maxdepth 1 -name 'spillway-demo.*'; }
trains() { [ -e "$(work)/probe" ]; }
for signal in INT:130 TERM:143; do
	# A shell's background child ignores SIGINT.
	env --default-signal=INT tests/demo >"$out" 2>"$err" &
	pid=$!
	tries=0
	until trains || [ $tries -gt 4000 ]; do
		tries=$((tries + 1))
		sleep 0.05
	done
	kill -s "${signal%:*}" $pid
	wait $pid
	status=$?
	[ $status -eq "${signal#*:}" ] || fail "SIG${signal%:*}: exit status $status"
	[ -z "$(work)" ] || fail "left after SIG${signal%:*}: $(work)"
done
finish

#!/bin/sh
# The demo leaves nothing behind when it is told to end.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

if [ ! -e "$build/lib/libspillway.so" ]; then
	echo 'there is no shim to run it with'
	exit 77
fi
work() { find "$TMPDIR" -maxdepth 1 -name 'spillway-demo.*'; }
for signal in INT TERM; do
	# A shell's background child ignores SIGINT, so that it cannot be sent that way.
	SECONDS_ALONE=1 timeout --foreground -s $signal 2 tests/demo >"$out" 2>"$err"
	[ $? -eq 124 ] || fail "SIG$signal did not end the demo"
	[ -z "$(work)" ] || fail "left after SIG$signal: $(work)"
done
finish

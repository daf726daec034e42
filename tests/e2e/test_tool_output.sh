#!/bin/sh
# SPDX-License-Identifier: MIT
# Files that options name. A regular file is replaced. A pipe, a device or a socket stays and is
# written into. A link is followed, unless another user put it into a directory that all users may
# write to.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

start_job bert -m 12582912
pattern=$TMPDIR/pattern

# The commands that write a file, and what is found in what they wrote.
commands='textfile trace save'
run() { # run COMMAND FILE
	case $1 in
	textfile) echo 'spillway_processes' >"$pattern" && timeout 100 "$spillway" stat --textfile "$2" ;;
	trace) echo 'traceEvents' >"$pattern" && timeout 100 "$spillway" events bert --chrome-trace "$2" ;;
	save) echo '^memory = 512MiB' >"$pattern" && timeout 100 "$spillway" set bert --memory 512MiB --save "$2" ;;
	esac
}

# As /dev/stdout is, which is the machine's and which root could lose to a fault here.
ln -s /proc/self/fd/1 "$TMPDIR/stdout"
stdouts="- /proc/self/fd/1 $TMPDIR/stdout"
[ "$(id -u)" -eq 0 ] || stdouts="$stdouts /dev/stdout"

for command in $commands; do
	# standard output, by its short name and by those of the kernel, whatever it is
	for name in $stdouts; do
		run "$command" "$name" >"$out" 2>"$err" || fail "$command $name: $?"
		says "$out" "$(cat "$pattern")"
		run "$command" "$name" 2>"$err" | cat >"$out"
		says "$out" "$(cat "$pattern")"
		echo before >"$TMPDIR/appended"
		run "$command" "$name" >>"$TMPDIR/appended" 2>"$err" || fail "$command $name >>file: $?"
		says "$TMPDIR/appended" '^before$'
		says "$TMPDIR/appended" "$(cat "$pattern")"
	done
	[ -h "$TMPDIR/stdout" ] || fail "$command: the link to standard output has become $(stat -c %F "$TMPDIR/stdout")"
	[ ! -e ./- ] || fail "$command - made a file of that name"
	run "$command" - >/dev/full 2>"$err" && fail "$command: a full standard output is not noticed"
	says "$err" '^spillway: standard output: (No space left on device|Input/output error)$'
	# a descriptor that was inherited
	run "$command" /dev/fd/7 7>"$TMPDIR/seventh" >"$out" 2>"$err" || fail "$command /dev/fd/7: $?"
	says "$TMPDIR/seventh" "$(cat "$pattern")"

	# a pipe, whose reader comes when it comes
	mkfifo "$TMPDIR/fifo"
	timeout 100 cat "$TMPDIR/fifo" >"$TMPDIR/read" &
	reader=$!
	run "$command" "$TMPDIR/fifo" >"$out" 2>"$err" || fail "$command to a pipe: $?"
	wait $reader
	says "$TMPDIR/read" "$(cat "$pattern")"
	[ -p "$TMPDIR/fifo" ] || fail "$command: the pipe has become $(stat -c %F "$TMPDIR/fifo")"
	rm "$TMPDIR/fifo"

	# a link, over two others; what it leads to need not be there yet
	ln -s second "$TMPDIR/first"
	ln -s "$TMPDIR/third" "$TMPDIR/second"
	for is in new old; do
		run "$command" "$TMPDIR/first" >"$out" 2>"$err" || fail "$command to a link, $is: $?"
		[ -h "$TMPDIR/first" ] && [ -h "$TMPDIR/second" ] || fail "$command: a link has become a file"
		[ -f "$TMPDIR/third" ] && [ ! -h "$TMPDIR/third" ] || fail "$command: not where the link leads"
		says "$TMPDIR/third" "$(cat "$pattern")"
	done
	ln -s loop "$TMPDIR/loop"
	run "$command" "$TMPDIR/loop" >"$out" 2>"$err" && fail "$command to a loop"
	says "$err" 'loop: Too many levels of symbolic links$'
	for name in "$TMPDIR" "$TMPDIR/"; do
		run "$command" "$name" >"$out" 2>"$err" && fail "$command to a directory"
		says "$err" 'Is a directory$'
	done
	rm "$TMPDIR/first" "$TMPDIR/second" "$TMPDIR/third" "$TMPDIR/loop"
	[ -z "$(find "$TMPDIR" -name '*.??????' -newer "$pattern" -type f)" ] || fail "$command left $(find "$TMPDIR" -name '*.??????')"
done

# A socket: whoever listens there.
python3 - "$TMPDIR/socket" >"$TMPDIR/heard" <<'END' &
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1] + ".new")
s.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])
c = s.accept()[0]
while part := c.recv(65536):
    sys.stdout.write(part.decode())
END
listener=$!
jobs_started="$jobs_started $listener"
until [ -S "$TMPDIR/socket" ]; do sleep 0.05; done
run textfile "$TMPDIR/socket" >"$out" 2>"$err" || fail "to a socket: $?"
wait $listener
says "$TMPDIR/heard" spillway_processes
[ -S "$TMPDIR/socket" ] || fail 'the socket is one no more'

# What is a device stays one. A node of its own, so that the machine's are not what is tried.
if [ "$(id -u)" -eq 0 ] && mknod "$TMPDIR/null" c 1 3 2>/dev/null && { : >"$TMPDIR/null"; } 2>/dev/null; then
	for command in $commands; do
		run "$command" "$TMPDIR/null" >"$out" 2>"$err" || fail "$command to a device: $?"
		[ -c "$TMPDIR/null" ] || fail "$command: the device has become $(stat -c %F "$TMPDIR/null")"
	done
	expect 1 "$spillway" events bert --state "$TMPDIR/null"
	says "$err" 'null: expected a file'
else
	echo 'no device nodes can be made here: not tried'
fi

# A stranger's link in a directory where everybody may put one is not followed; a stranger's
# elsewhere, and root's, are.
if [ "$(id -u)" -eq 0 ]; then
	mkdir -m 1777 "$TMPDIR/sticky"
	for command in $commands; do
		echo '# precious' >"$TMPDIR/target"
		ln -s "$TMPDIR/target" "$TMPDIR/sticky/link"
		chown -h 65533 "$TMPDIR/sticky/link"
		run "$command" "$TMPDIR/sticky/link" >"$out" 2>"$err" && fail "$command follows a stranger's link"
		says "$err" '/link: a link of user .*, in a directory that all users may write to, is not followed$'
		[ "$(cat "$TMPDIR/target")" = '# precious' ] || fail "$command: what the link leads to was changed"
		[ -h "$TMPDIR/sticky/link" ] || fail "$command: the link was replaced"
		chmod 755 "$TMPDIR/sticky"
		run "$command" "$TMPDIR/sticky/link" >"$out" 2>"$err" || fail "$command: a link in a directory of root's: $?"
		says "$TMPDIR/target" "$(cat "$pattern")"
		chmod 1777 "$TMPDIR/sticky"
		rm "$TMPDIR/sticky/link"
	done
fi
finish

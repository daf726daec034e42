#!/bin/sh
# SPDX-License-Identifier: MIT
# Other users write text into their segments, pages, rings and files. It drives no terminal: no
# control character of it, of C0, DEL or C1, comes out of any command in any format. Nor do bytes
# that are no UTF-8.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
writer=$build/tests/e2e/write_events
SPILLWAY_NODE_DIR=$TMPDIR/node
export SPILLWAY_NODE_DIR LC_ALL=C.UTF-8
mkdir -m 1777 "$SPILLWAY_NODE_DIR"
# The control sequence introducer by three ways, a bell, a delete, what is no UTF-8, and a character
# that may stay.
evil=$(printf '\033]0;own\007\302\2331m\2332m\177\377\303\251')

mkdir "$TMPDIR/said"
number=0
tried() { # tried COMMAND...: whatever its status, it ends; what it says is kept, to be looked at in the end
	timeout 200 "$@" >"$out" 2>"$err"
	status=$?
	[ $status -ne 124 ] || fail "$*: does not end"
	number=$((number + 1))
	cat "$out" "$err" >"$TMPDIR/said/$number"
	printf '%s' "$*" | tr -dc ' -~' >"$TMPDIR/said/$number.command"
}

# A job whose every text field is hostile; its segment and ring are its user's to write.
echo 'nonsense' >"$TMPDIR/bad.ini"
SPILLWAY_LABELS=team=visionvisionvisionvision SPILLWAY_SHARE=60 \
	start_job bert -m 12582912 -u GPU-11111111-1111-1111-1111-111111111111
echo 'nonsense' >"$SPILLWAY_STATE_DIR/bert.override.ini"
until "$spillway" stat bert | grep -q "says: "; do sleep 0.05; done
mkfifo "$TMPDIR/to"
SPILLWAY_JOB=rings "$writer" <"$TMPDIR/to" >"$TMPDIR/from" 2>&1 &
jobs_started="$jobs_started $!"
exec 7>"$TMPDIR/to"
echo burst 0 1000000000 5000 1 0 0 0 0 >&7
wait_for '^written' "$TMPDIR/from"
tries=0
until ls "$SPILLWAY_NODE_DIR"/job-*-bert-*.page >/dev/null 2>&1 || [ $tries -gt 1200 ]; do
	tries=$((tries + 1))
	sleep 0.05
done
kill -STOP "$pid"
cat >"$TMPDIR/poison.py" <<'END'
# poison.py FILE TEXT...: puts hostile bytes over each TEXT, of as many bytes, wherever it is
import os, sys
evil = os.fsencode(sys.argv[1])
with open(sys.argv[2], "r+b") as file:
    data = file.read()
    for text in map(os.fsencode, sys.argv[3:]):
        assert text in data, text
        at = data.find(text)
        while at >= 0:
            file.seek(at)
            file.write((evil * (len(text) // len(evil) + 1))[:len(text)])
            at = data.find(text, at + len(text))
END
poison() { python3 "$TMPDIR/poison.py" "$evil" "$@" || fail "cannot poison $1"; }
poison "$SPILLWAY_STATE_DIR/bert.segment" team=visionvisionvisionvision GPU-11111111-1111-1111-1111-111111111111 \
	'0000:01:00.0' 'Fake GPU' 'fake_job -m 12582912' 'override.ini:1: expected'
for ring in "$SPILLWAY_STATE_DIR"/rings.*.events; do
	poison "$ring" write_events
done
tried "$spillway" stat bert
says "$out" 'labels \?\]0;own'
says "$out" '^process [0-9]+ says: .*\?'
for format in text csv csv,noheader,nounits json prometheus antman; do
	if [ $format != antman ]; then
		tried "$spillway" stat --format $format
		says "$out" bert
	fi
	tried "$spillway" stat bert --format $format
done
for command in 'stat --textfile -' 'stat bert --resources' 'stat bert --resources --json' 'events --since @0' 'events rings --since @0' \
	'events rings --since @0 --json' 'events rings --chrome-trace -' 'top' 'top bert' 'doctor' 'pause bert --timeout 0.2' 'resume bert --timeout 0.2' \
	'set bert --share 30 --timeout 0.2' 'set bert --share 30 --limit-gpu 1 --timeout 0.2' 'set bert --share 3 --save -'; do
	# shellcheck disable=SC2086 # words
	tried "$spillway" $command
done

# On a screen: of what curses sends, nothing is the job's.
TERM=xterm-256color python3 - "$spillway" <<'END' >"$out" 2>"$err" || fail 'top on a terminal'
import os, pty, re, select, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], ["spillway", "top"])
seen, begun = b"", time.monotonic()
while b"bert" not in seen or seen.count(b"own") < 2:
    assert time.monotonic() - begun < 60, seen
    if select.select([terminal], [], [], 1)[0]:
        seen += os.read(terminal, 65536)
os.write(terminal, b"q")
try:
    while part := os.read(terminal, 65536):
        seen += part
except OSError:
    pass
text = seen.decode("utf-8")
assert "\x1b]0;own" not in text and not re.search("[\x07\x7f-\x9f]", text), seen
END

# Names on the command line, in the environment and in files.
tried "$spillway" stat "$evil"
tried "$spillway" set "a/$evil" --share 3
tried "$spillway" pause "$evil/b"
tried "$spillway" stat --textfile "/nonexistent/$evil"
tried env SPILLWAY_LABELS="a=$evil" SPILLWAY_JOB="$evil" SPILLWAY_MEMORY="$evil" "$spillway" doctor
tried env SPILLWAY_JOB="$evil" "$spillway" run true
mkdir "$TMPDIR/$evil"
printf '[gpu %s]\nshare = %s\n%s = 3\n' "$evil" "$evil" "$evil" >"$TMPDIR/$evil/config.ini"
tried env SPILLWAY_CONFIG="$TMPDIR/$evil/config.ini" "$spillway" doctor
tried "$spillway" run --config "$TMPDIR/$evil/config.ini" true
tried env SPILLWAY_STATE_DIR="$TMPDIR/$evil" "$spillway" stat
tried env SPILLWAY_STATE_DIR="$TMPDIR/$evil" "$spillway" stat nobody
tried env SPILLWAY_NODE_DIR="$TMPDIR/$evil" "$spillway" stat
cp "$SPILLWAY_STATE_DIR/bert.segment" "$TMPDIR/$evil/bert.segment"
printf '[gpu]\nshare = 3\n[gpu %s]\nshare = %s\n' "$evil" "$evil" >"$SPILLWAY_STATE_DIR/bert.override.ini"
tried "$spillway" set bert --share 30 --timeout 0.2
tried "$spillway" pause bert --timeout 0.2
tried "$spillway" resume bert --timeout 0.2
tried "$spillway" doctor

# Pages: those with such bytes are not understood, whichever field it is; the others are listed.
page=$(echo "$SPILLWAY_NODE_DIR"/job-*-bert-*.page)
for field in team=visionvisionvisionvision GPU-11111111-1111-1111-1111-111111111111 '0000:01:00.0' 'Fake GPU' "$SPILLWAY_STATE_DIR"; do
	cp "$page" "$TMPDIR/page"
	poison "$page" "$field"
	for format in text csv json prometheus; do
		tried env SPILLWAY_STATE_DIR="$TMPDIR/elsewhere" "$spillway" stat --format $format
		[ $format = prometheus ] || says "$err" '1 page cannot be read and not shown: .* page is damaged'
	done
	tried env SPILLWAY_STATE_DIR="$TMPDIR/elsewhere" "$spillway" set bert --share 3
	cp "$TMPDIR/page" "$page"
done
mv "$page" "$SPILLWAY_NODE_DIR/job-0-$evil-0.page"
tried env SPILLWAY_STATE_DIR="$TMPDIR/elsewhere" "$spillway" stat
says "$err" 'page cannot be read'
exec 7>&-

[ $number -gt 60 ] || fail "only $number commands were tried"
python3 - "$TMPDIR/said" $number <<'END' >"$out" 2>"$err" || fail 'what a terminal would obey, or no UTF-8'
import re, sys
bad = 0
for number in range(1, int(sys.argv[2]) + 1):
    path = "%s/%d" % (sys.argv[1], number)
    text = open(path, "rb").read().decode("utf-8", "surrogateescape")
    found = re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", text)
    if found:
        print(open(path + ".command").read(), ascii(text[max(0, found.start() - 40):found.end() + 40]))
        bad += 1
sys.exit(bad > 0)
END
finish

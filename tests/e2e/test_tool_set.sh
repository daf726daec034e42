#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway set, pause, resume: their refusals, the files that they write, and their waits.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
override=$SPILLWAY_STATE_DIR/bert.override.ini
paused=$SPILLWAY_STATE_DIR/bert.pause.ini

expect 1 "$spillway" set bert --memory 1G
says "$err" "^spillway: no job 'bert' in "

start_job bert -m 12582912
expect 0 "$spillway" set bert --memory 8MiB --share 50
says "$out" '^gpu 0: limit 8\.00 MiB, share 50 %; 12\.0 MiB in use: memory that the driver allocated, such as contexts and arrays, cannot leave the GPU \(foreign\)\. New memory goes to the host'
expect 0 "$spillway" set bert --memory 50%
says "$out" '^gpu 0: limit 512 MiB, share 50 %$'
expect 0 "$spillway" set bert --memory 2GiB
says "$out" '^gpu 0: limit 2\.00 GiB \(more than the GPU has, 1\.00 GiB\), share 50 %$'
expect 0 "$spillway" set bert --memory 50%
expect 0 "$spillway" set --memory-max unlimited --host-memory 1G bert
[ ! -s "$err" ] || fail "--memory-max: $(cat "$err")"
says "$override" '^host_memory = 1G$'
says "$override" '^share = 50$'
# Old spellings are taken, stand for the setting, and are not listed.
expect 0 "$spillway" set bert --host-limit 2G --memory-limit=50% --reported limit
says "$override" '^host_memory = 2G$'
says "$override" '^reported_memory = limit$'
[ "$(grep -c . "$override")" = "$(grep . "$override" | sort -u | wc -l)" ] || fail "a setting stands twice: $(cat "$override")"
expect 0 "$spillway" set --help
for old in memory-limit memory-limit-max host-limit request limit; do
	! grep -E -e "--$old([^-]|\$)" "$out" || fail "help lists --$old"
done
expect 2 "$spillway" set bert --host-limit 20
says "$err" "^spillway: --host-memory '20': no unit; did you mean 20GiB\\?$"
[ "$(stat -c %a "$override")" = 600 ] || fail 'the override file can be read by others'
expect 0 "$spillway" set bert --limit-gpu 0 --share 30
says "$out" 'share 30 %'
before=$(cat "$override")
expect 2 "$spillway" set bert --limit-gpu abc --share 20
says "$err" '^spillway: .*abc.*expected'
expect 1 "$spillway" set bert --limit-gpu 7 --share 20
says "$err" "^spillway: --limit-gpu '7': job 'bert' has no such GPU; it has 0 \(GPU-0.*, 0000:01:00.0\)$"
expect 1 "$spillway" set bert --limit-gpu GPU-1 --share 20
[ "$(cat "$override")" = "$before" ] || fail 'a refused change was written'
expect 0 "$spillway" set bert --limit-gpu GPU-00000000 --memory 768M
says "$out" '^gpu 0: limit 768 MiB'
expect 0 "$spillway" set bert --limit-gpu 01:00 --memory 1G
says_not "$err" .
expect 0 env SPILLWAY_MEMORY_LIMT=32MiB "$spillway" set bert --share 50
says "$err" '^spillway: SPILLWAY_MEMORY_LIMT: unknown environment variable; did you mean'

# What its user may have put there keeps nobody waiting: a pipe, a lock that is never given back.
cp "$override" "$TMPDIR/kept"
for kind in fifo held; do
	for file in "$override.lock" "$override" "$paused"; do
		rm -f "$file"
		if [ $kind = fifo ]; then
			mkfifo "$file"
		else
			cp "$TMPDIR/kept" "$file"
			flock "$file" sleep 1000 &
			holder=$!
			jobs_started="$jobs_started $holder"
			until ! flock -n "$file" true; do :; done
		fi
		for command in 'set bert --share 40' 'pause bert' 'resume bert'; do
			# shellcheck disable=SC2086 # words
			timeout 200 "$spillway" $command --timeout 0.2 >"$out" 2>"$err"
			status=$?
			[ $status -ne 124 ] || fail "$command waits for a $kind $file"
			case $kind-$file-$command in
			held-*.lock-set*--share\ 40)
				[ $status -eq 1 ] || fail "status $status: $command"
				says "$err" 'bert\.override\.ini\.lock: cannot be locked, so nothing is changed: locked by another'
				;;
			fifo-*.lock-set*)
				[ $status -eq 1 ] || fail "status $status: $command"
				says "$err" '/bert\.override\.ini\.lock: .*not a regular file$'
				;;
			esac
		done
		timeout 200 "$spillway" doctor >"$out" 2>"$err"
		[ $? -ne 124 ] || fail "doctor waits for a $kind $file"
		[ $kind = fifo ] || kill "$holder"
		rm -f "$file"
		[ "$file" != "$override" ] || cp "$TMPDIR/kept" "$override"
	done
done
expect 0 "$spillway" set bert --share 50

# Pause and resume put back what stood before, for each GPU; repeated they do no harm.
expect 0 "$spillway" resume bert
says "$out" '^bert is not paused$'
expect 0 "$spillway" set bert --share 0
expect 0 "$spillway" resume bert
says "$out" '^bert is held by a share of 0, not by pause; use spillway set bert --share PERCENT$'
expect 0 "$spillway" set bert --share 50
expect 0 "$spillway" pause bert
says "$out" 'share 0 %'
[ "$(stat -c %a "$paused")" = 600 ] || fail 'the pause can be read by others'
expect 0 "$spillway" pause bert
says "$out" '^bert is paused already$'
says "$out" "share 0 %, paused until 'spillway resume bert'\$"
expect 0 "$spillway" stat bert
says "$out" "^paused by $(id -un) since 20.*: 'spillway resume bert' lets it go on$"
says "$out" '^job bert: paused, began 20'
says "$out" ' yes +0 +- +0$'
expect 0 "$spillway" set bert --memory 4MiB
says "$out" 'limit 768 MiB' # the one GPU's own is stronger
expect 0 "$spillway" set bert --limit-gpu GPU-00000000 --memory 4MiB
says "$out" 'limit 4\.00 MiB, share 0 %'
expect 0 "$spillway" resume bert
says "$out" 'limit 4\.00 MiB, share 30 %'
says "$override" '^share = 50$'
# Old spellings are taken, stand for the setting, and are not listed.
expect 0 "$spillway" set bert --host-limit 2G --memory-limit=50% --reported limit
says "$override" '^host_memory = 2G$'
says "$override" '^reported_memory = limit$'
[ "$(grep -c . "$override")" = "$(grep . "$override" | sort -u | wc -l)" ] || fail "a setting stands twice: $(cat "$override")"
expect 0 "$spillway" set --help
for old in memory-limit memory-limit-max host-limit; do
	! grep -E -e "--$old([^-]|\$)" "$out" || fail "help lists --$old"
done
expect 2 "$spillway" set bert --host-limit 20
says "$err" "^spillway: --host-memory '20': no unit; did you mean 20GiB\\?$"
[ ! -e "$paused" ] || fail 'the job counts as paused after resume'

# A share set while paused holds from resume on.
expect 0 "$spillway" pause bert
expect 0 "$spillway" set bert --limit-gpu 0 --share 40
says "$out" '^bert is paused: the share holds from'
says "$out" 'share 0 %'
expect 0 "$spillway" resume bert
says "$out" 'share 40 %'
expect 1 "$spillway" set bert --memory-max 1M
says "$err" '^spillway: .*expected'
kill "$pid"
wait "$pid"
expect 1 "$spillway" set bert --share 5
says "$err" "^spillway: job 'bert' has ended"
expect 1 "$spillway" pause bert
expect 1 "$spillway" resume bert

# Without an own share the weaker layers hold again.
SPILLWAY_SHARE=70
export SPILLWAY_SHARE
start_job plain
expect 0 "$spillway" pause plain
says "$out" 'share 0 %'
expect 0 "$spillway" resume plain
says "$out" 'share 70 %'
kill "$pid"
wait "$pid"

# Over limits of the environment, and of a file that nobody may write to, which stays as it is.
SPILLWAY_MEMORY=8MiB start_job by-environment
expect 0 "$spillway" set by-environment --memory 16MiB
says "$out" '^gpu 0: limit 16\.0 MiB, share 70 %$'
kill "$pid"
wait "$pid"
mkdir "$TMPDIR/fixed"
printf '[gpu]\nmemory = 8MiB\n' >"$TMPDIR/fixed/job.ini"
chmod 400 "$TMPDIR/fixed/job.ini"
chmod 500 "$TMPDIR/fixed"
before=$(stat -c '%i %y' "$TMPDIR/fixed/job.ini")
SPILLWAY_CONFIG=$TMPDIR/fixed/job.ini start_job by-file
expect 0 "$spillway" stat by-file
says "$out" ' 8\.00 MiB '
expect 0 "$spillway" set by-file --memory 16MiB
says "$out" '^gpu 0: limit 16\.0 MiB'
expect 0 "$spillway" pause by-file
expect 0 "$spillway" resume by-file
[ "$(stat -c '%i %y' "$TMPDIR/fixed/job.ini")" = "$before" ] || fail 'the file was written to'
chmod 700 "$TMPDIR/fixed"
kill "$pid"
wait "$pid"

# Evicted: both at once in the override, and gone from it after resume.
start_job away -c elastic=1
expect 0 "$spillway" pause --evict away
says "$out" '^gpu 0: evicted, 0 B on the host, 0 B on the GPU$'
says "$SPILLWAY_STATE_DIR/away.pause.ini" '^evict = yes$'
expect 0 "$spillway" pause away
says "$SPILLWAY_STATE_DIR/away.pause.ini" '^evict = yes$'
expect 0 "$spillway" resume away
[ ! -e "$SPILLWAY_STATE_DIR/away.pause.ini" ] || fail 'the job is evicted after resume'
expect 2 "$spillway" resume --evict away
# A GPU that only an ended process of the job has used is no GPU of which something is to follow.
SPILLWAY_JOB=away "$fake_job" -1 -u GPU-00000000-0000-0000-0000-000000000002 >/dev/null
expect 0 "$spillway" pause --evict away
says "$out" '^gpu 0: evicted'
says_not "$out" '^gpu 1'
expect 0 "$spillway" resume away
# Of two processes the one whose memory is still on its way counts.
start_job away -m 4194304 -c elastic=1 -c move_pending=3
expect 1 "$spillway" pause --evict away --timeout 5
says "$err" "^spillway: gpu 0: 4\.00 MiB of job 'away' stay on the GPU: not moved in time: a thread stays inside"
kill "$pid"
wait "$pid"

# A process refuses a change, as one of another build may: it is taken back, byte for byte, and
# pause and resume work.
start_job stubborn
expect 0 "$spillway" set stubborn --share 7
cp "$SPILLWAY_STATE_DIR/stubborn.override.ini" "$TMPDIR/kept"
start_job stubborn -r
expect 1 "$spillway" set stubborn --memory 1GiB
says "$err" "^spillway: process $pid \(.*fake_job -r\) of job 'stubborn' refuses the change, so it is taken back: as it likes$"
cmp "$TMPDIR/kept" "$SPILLWAY_STATE_DIR/stubborn.override.ini" || fail 'what was refused stands in the file'
expect 0 "$spillway" pause stubborn
expect 0 "$spillway" resume stubborn
kill "$pid"
wait "$pid"

# One process of two does not follow: it is named.
start_job deaf
start_job deaf -d
expect 1 "$spillway" set deaf --share 5 --timeout 3s
says "$err" "^spillway: process $pid \(.*fake_job -d\) of job 'deaf' does not follow within 3\.00? s"
kill "$pid"
wait "$pid"
expect 0 "$spillway" set deaf --share 6
# Memory on the host beyond a new limit there.
start_job spilled -s 8388608
expect 0 "$spillway" set spilled --host-memory 1MiB
says "$out" '^gpu 0: 8\.00 MiB on the host, more than --host-memory 1MiB: it stays there, and nothing more goes there$'
expect 0 "$spillway" set spilled --host-memory 8MiB
says_not "$out" 'on the host'
finish

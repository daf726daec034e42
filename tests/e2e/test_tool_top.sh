#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway top, driven as a person would: in a terminal that tmux keeps, by keys, seen by its
# screen.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

if ! command -v tmux >/dev/null; then
	echo 'tmux is not installed'
	exit 77
fi
LC_ALL=C.UTF-8
export LC_ALL
unset TMUX NO_COLOR

terminal() { tmux -u -S "$TMPDIR/tmux" -f /dev/null "$@"; }
end_all() {
	terminal kill-server 2>/dev/null
	end_started
}
trap end_all EXIT

# The screen, with what differs from run to run made plain.
screen() {
	terminal capture-pane -p -t top | sed -E "s/[0-9]{2}:[0-9]{2}:[0-9]{2}$/hh:mm:ss/; s/^( *)$small /\1(small) /; \
		s/^( *)$large /\1(large) /; s/process $small/process (small)/; s/process $large/process (large)/; s/ +$//"
}
# in_time COMMAND...: it succeeds on a screen within 60 s; what is drawn is not all there at once
in_time() {
	tries=0
	until screen >"$out" && "$@"; do
		tries=$((tries + 1))
		[ $tries -le 1200 ] || return 1
		sleep 0.05
	done
}
sees() { in_time grep -Eq -- "$1" "$out" || fail "the screen does not show /$1/"; }
sees_no() { in_time lacks "$1" || fail "the screen shows /$1/"; }
lacks() { ! grep -Eq -- "$1" "$out"; }
keys() { terminal send-keys -t top "$@"; }
# first_is JOB: the first row is of this job
first_is() { in_time row_is "$1" || fail "expected $1 in the first row"; }
row_is() { sed -n 5p "$out" | grep -q " $1 "; }

SPILLWAY_MEMORY=512MiB SPILLWAY_SHARE=60 start_job alpha -m 4096 -c share_held=59960
small=$pid
start_job beta -m 536870912 -s 268435456 -i 7000000
large=$pid

# Without a terminal the rows are printed once.
expect 0 "$spillway" top
says "$out" '^ *PID +JOB +GPU +DEVICE +HOST +LIMIT +SHARE +HELD +SPILLS +STEP +PRIO +LENDING +COMMAND$'
says "$out" "^ *$small +alpha +0 +4\.00K +0 +512M +60% +60\.0% +0 +- +- +- +fake_job -m 4096 "
says "$out" "^ *$large +beta +0 +512M +256M +none +100% +- +1 +- +- +- +fake_job -m 536870912"
[ "$(wc -l <"$out")" -eq 3 ] || fail 'expected a heading and two rows'
expect 0 "$spillway" top alpha
says_not "$out" beta
expect 1 "$spillway" top nobody
says "$err" "^spillway: no job 'nobody' in "
expect 2 "$spillway" top --interval 0
expect 2 "$spillway" top one two

# 80x24, to the last character.
terminal new-session -d -s top -x 80 -y 24 "'$spillway' top --interval 50ms; echo status \$?; exec cat"
terminal set-option -t top remain-on-exit on
sees ' 60\.0% '
cat >"$TMPDIR/expected" <<'END'
spillway top  jobs: 2  processes: 2  sort: job                          hh:mm:ss
█ held  ▒ beyond the limit  ▓ other users  ░ free
GPU 0 Fake GPU               you  512M others     0 free  512M busy  60% jobs  2
    PID JOB        GPU          DEVICE          HOST  LIMIT SHARE   HELD SPILLS
(small) alpha        0 █░░░      4.00K ░░░░░░      0   512M   60%  60.0%      0
(large) beta         0 ████░░░░   512M ██░░░░   256M   none  100%      -      1
END
looks_as_expected() { sed "s/^ *(/(/" "$out" | head -n 6 | cmp -s - "$TMPDIR/expected"; }
in_time looks_as_expected || fail "expected: $(cat "$TMPDIR/expected")"
sees '^alpha, process \(small\): fake_job -m 4096 -c share_held=59960$'
sees '^gpu 0: limit held 512 MiB, peak 4\.00 KiB, refused 0, idle 0 ns; Fake GPU, GPU-'
sees '^q quit h help sS sort / find a ended mM limit pP share z pause e evict r resume$'
[ "$(wc -l <"$out")" -eq 24 ] || fail 'the screen has not 24 lines'

# Order, both ways round; the selection stays with its row.
keys s
sees 'sort: device'
first_is beta
sees '^alpha, process'
keys S
sees 'sort: -device'
first_is alpha
keys S s s s s
sees 'sort: job'

# What is shown.
keys / b e t Enter
sees 'filter: bet '
first_is beta
sees_no alpha
keys / z z Enter
sees '^nothing matches$'
keys / Enter
sees ' alpha '

# A limit and a share, for every GPU and for one; what `set` refuses is said, and what it did.
keys Home m
sees '^memory limit of alpha \(8GiB, 50%, unlimited\): _$'
keys 2 5 x BSpace % Enter
sees '^gpu 0: limit 256 MiB, share 60 %$'
sees ' 256M +60% '
says "$SPILLWAY_STATE_DIR/alpha.override.ini" '^memory = 25%$'
keys m 2 0 Enter
sees "^--memory '20': no unit; did you mean 20GiB\?$"
keys p 1 0 1 Enter
sees "^--share '101': expected"
keys P
sees '^percent of GPU time for alpha on gpu 0: _$'
keys 3 3 . 3 3 Enter
sees ' 256M 33\.3% '
says "$SPILLWAY_STATE_DIR/alpha.override.ini" '^\[gpu GPU-0000'
keys m 9 Escape
sees '^q quit'
keys Down M 1 G Enter
sees ' 1\.00G  100% '
sees '^gpu 0: limit 1\.00 GiB'
says "$SPILLWAY_STATE_DIR/beta.override.ini" '^memory = 1G$'
keys M 2 5 6 M Enter
sees ' ██▒▒ +512M ' # two beyond the limit
sees '^gpu 0: limit 256 MiB'

# Pause and resume.
# z and e ask first: any other key than y changes nothing.
keys Up z
sees '^pause alpha\? y/n: it stops at its next launch _$'
keys n
sees '^nothing is changed$'
sees '^q quit'
[ ! -s "$SPILLWAY_STATE_DIR/alpha.pause" ] || fail 'alpha is paused without a y'
keys z y
sees ' alpha .* paused '
sees "^gpu 0: .* share 0 %, paused until 'spillway resume alpha'$"
keys r
sees ' alpha .* 33\.3% +60\.0% '
sees '^gpu 0: .* share 33\.33 %$'
keys e
sees '^evict alpha\? y/n: it stops, and its memory goes to the host _$'
keys y
sees ' alpha .* evict '
sees '^gpu 0: evicted, limit held'
sees '^gpu 0: evicted, 0 B on the host, 4\.00 KiB on the GPU'
keys r
sees ' alpha .* 33\.3% +60\.0% '

# A process that does not follow holds up nothing.
start_job deaf -d
deaf=$pid
sees ' deaf '
keys End z y
sees '^pause deaf \.\.\.$'
keys Up Home
sees '^alpha, process'
kill "$deaf"
wait "$deaf" 2>/dev/null
sees 'jobs: 2 '

# Help, and back.
keys h
sees '^any key goes back$'
sees 'pause the job; and move its memory'
keys x
sees '^q quit'

# Colour where it means something: what is held beyond the limit is red, what is within it green.
escape=$(printf '\033')
coloured() { # coloured COLOUR MARK [BEFORE]
	tries=0
	until terminal capture-pane -e -p -t top | grep -Eq "${3-}$escape\[$1m($escape\[49m)?$2"; do
		tries=$((tries + 1))
		[ $tries -le 1200 ] || {
			fail "$2 is not coloured $1"
			return
		}
		sleep 0.05
	done
}
coloured 31 █
# So has the selected row's bar, which is not reversed: its green part would be what is free.
keys Home
sees '^alpha, process'
coloured 32 █░ "$escape\[0m"

# Other sizes: wide, small, too small, and back.
terminal resize-window -t top -x 140 -y 12
sees ' COMMAND$'
sees ' fake_job -m 536870912'
sees '^GPU 0 Fake GPU {17}█+░+ you ' # there is room for a bar, half of which is held
marks() { grep '^GPU 0' "$out" | grep -o "$1" | wc -l; }
[ "$(marks ░)" -ge "$(marks █)" ] && [ "$(marks ░)" -le $(($(marks █) + 1)) ] || fail 'not half a bar'
terminal resize-window -t top -x 64 -y 9
sees ' SPILLS$'
sees '^keys: q sS / a mM pP z e r  h explains them$' # each of them, also where words have no room
sees '^alpha, process'
keys / a l p Enter
sees 'filter: alp '
keys / Enter
terminal resize-window -t top -x 30 -y 5
sees '^too small$'
terminal resize-window -t top -x 80 -y 24
sees '^ *\(large\) beta '

# More rows than room: the selected one is in sight.
terminal resize-window -t top -x 80 -y 9
for i in 1 2 3; do start_job more -m $i; done
sees 'jobs: 3  processes: 5'
keys End
sees '^more, process'
sees ' more '
keys Home
sees ' alpha '
terminal resize-window -t top -x 80 -y 24

# Steps and moves, as they happen.
start_job steady -c steps=3 -c step_ns=10000000
steady=$pid
keys / s t e a d Enter
sees '^steady, process'
sees '^moved 0 B out, 0 B in; spilled 0 B; steps 3 of 10\.0 ms █$'
kill -USR1 "$steady"
sees '^moved 1\.00 MiB out, 0 B in; spilled 0 B; steps 4 of 20\.0 ms ▄█$'
kill -USR1 "$steady"
sees '^moved 2\.00 MiB out, 0 B in; spilled 0 B; steps 5 of 30\.0 ms ▃▅█$'
terminal resize-window -t top -x 140 -y 24
sees ' STEP +COMMAND$'
sees ' steady .* 30\.0 ms +fake_job'
terminal resize-window -t top -x 80 -y 24
keys / Enter
kill "$steady"
wait "$steady" 2>/dev/null
sees_no ' steady '

# Names from other processes move no cursor and colour nothing.
start_job zeta -u "$(printf 'GPU-\033[2J\303\251\351')"
sees 'jobs: 4'
keys End
sees 'GPU-\?\[2Jé\?$'
sees ' alpha '
# Two GPUs that their jobs both call 0 are told by their bus.
sees '^GPU 01:00\.0 Fake GPU .* jobs  1$'

# What has ended is gone; q ends it, and the terminal is as before.
kill "$small"
wait "$small" 2>/dev/null
sees_no ' alpha '
# a shows it again, dim and without keys that change it, and hides it again.
keys a
sees '  with ended '
sees '^ *- +alpha +0 .* ended '
keys Home
sees '^alpha has ended; stat alpha shows it$'
keys z
sees '^the job has ended$'
keys a
sees_no ' alpha '
keys q
sees '^status 0$'

# A signal ends it as a signal, with the terminal given back.
terminal respawn-pane -k -t top "sh -c 'echo \$\$ >$TMPDIR/pid; exec \"$spillway\" top'; echo status \$?; exec cat"
sees ' beta '
kill "$(cat "$TMPDIR/pid")"
sees '^status 143$'

# With --read-only no key changes a job.
terminal respawn-pane -k -t top "'$spillway' top --read-only --interval 50ms; echo status \$?; exec cat"
sees '^q quit h help sS sort / find a ended  \(read-only\)$'
for key in m M p P z e r; do
	keys "$key"
	sees '^--read-only: no key changes a job$'
	keys s
	sees '^█ held '
done
keys q
sees '^status 0$'

# Where the locale has no Unicode, bars are of plain marks.
terminal respawn-pane -k -t top "LC_ALL=C exec '$spillway' top"
sees ' beta +0 ##!! +512M ##\.\.\.\. '

# A terminal nobody knows.
terminal respawn-pane -k -t top "TERM=nonsense '$spillway' top; echo status \$?; exec cat"
sees '^spillway: TERM=nonsense: not a terminal that is known here$'
sees '^status 0$'
sees ' beta +0 '
finish

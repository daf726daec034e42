#!/bin/sh
# SPDX-License-Identifier: MIT
# Jobs of the node: spillway stat lists those of other users and other state directories, and root
# changes them. Forged pages do no harm.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

# Where other users come to: TMPDIR is ours alone.
common=$(mktemp -d /dev/shm/spillway-test.XXXXXX)
chmod 755 "$common"
# What the trap of tool.sh does, and this folder.
trap 'end_started; rm -rf "$common"' EXIT
cp -r "$tree" "$common/tree"
cp "$fake_job" "$common/fake_job"
chmod -R a+rX "$common"
spillway=$common/tree/spillway
fake_job=$common/fake_job
SPILLWAY_NODE_DIR=$common/node
export SPILLWAY_NODE_DIR
elsewhere=$TMPDIR/elsewhere
me=$(id -un)

json() { # json EXPRESSION: of the document d in $out
	python3 -c "import json,sys; d=json.load(open('$out')); sys.exit(not ($1))" || fail "not so: $1"
}

# start_as UID NAME ARGUMENTS...: a job of another user, in that user's state directory; its number
# in $pid
start_as() {
	user=$1 name=$2
	shift 2
	log=$TMPDIR/$user-$name.log
	: >"$log"
	SPILLWAY_STATE_DIR=$common/state-$user SPILLWAY_JOB=$name \
		setpriv --reuid "$user" --regid "$user" --clear-groups "$fake_job" "$@" >"$log" 2>&1 &
	pid=$!
	jobs_started="${jobs_started:-} $pid"
	wait_for ready "$log"
}

# page_of NAME: waits for its page
page_of() {
	tries=0
	until [ -e "$(echo "$SPILLWAY_NODE_DIR"/job-*-"$1"-*.page)" ]; do
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || {
			fail "no page of $1"
			return
		}
		sleep 0.05
	done
	echo "$SPILLWAY_NODE_DIR"/job-*-"$1"-*.page
}

# Without the directory all is as it was.
start_job alone -m 4096
alone=$pid
expect 0 "$spillway" stat
says "$out" "^alone +$me +running +1 +0 +4\.00 KiB .* -\$"
expect 0 env SPILLWAY_STATE_DIR="$elsewhere" "$spillway" stat
says "$out" '^no jobs in '
expect 1 "$spillway" set anna/alone --memory 1GiB
says "$err" "^spillway: no job 'anna/alone': no page in $SPILLWAY_NODE_DIR tells of it; .*'spillway doctor'"
mkdir "$SPILLWAY_NODE_DIR"
chmod 1777 "$SPILLWAY_NODE_DIR"
page_of alone >"$out"

# One's own jobs in another state directory, as in another container.
SPILLWAY_MEMORY=8MiB SPILLWAY_SHARE=60 SPILLWAY_LABELS=pod=train-0,namespace=vision \
	start_job near -m 12582912 -s 1048576
near=$pid
page_of near >"$out"
expect 0 "$spillway" stat
[ "$(grep -c '^near ' "$out")" -eq 1 ] || fail 'a job of the state directory is listed once, not by its page, too'
expect 0 env SPILLWAY_STATE_DIR="$elsewhere" "$spillway" stat
says "$out" "^near +$me +running +1 +0 +12\.0 MiB +8\.00 MiB +1\.00 MiB +1\.00 MiB +60 % +- +0 ns +0 ns +pod=train-0,namespace=vision\$"
expect 0 env SPILLWAY_STATE_DIR="$elsewhere" "$spillway" stat --json
json '[j["job"] for j in d["jobs"]] == ["alone", "near"] and d["node_jobs"] == []'
json 'd["jobs"][1]["devices"][0]["spilled_bytes"] == 2**20 and len(d["jobs"][1]["processes"]) == 1'
expect 0 env SPILLWAY_STATE_DIR="$elsewhere" "$spillway" top
says "$out" "^ *$near +$me/near "

# Where their state directory is out of reach there are their pages.
chmod 777 "$SPILLWAY_STATE_DIR"
expect 0 env SPILLWAY_STATE_DIR="$elsewhere" "$spillway" stat
says "$out" "^near +$me +running +1 +0 +12\.0 MiB +8\.00 MiB +1\.00 MiB +- +60 % +- +- +- +pod=train-0,namespace=vision\$"
expect 0 env SPILLWAY_STATE_DIR="$elsewhere" "$spillway" stat --json
json '[j["job"] for j in d["node_jobs"]] == ["alone", "near"] and d["jobs"] == []'
json 'd["node_jobs"][1]["labels"] == "pod=train-0,namespace=vision" and d["node_jobs"][1]["process_count"] == 1'
json 'd["node_jobs"][1]["devices"][0]["limit_set"] == 2**23 and d["node_jobs"][1]["devices"][0]["share_set"] == 60000'
json 'd["node_jobs"][0]["devices"][0]["limit_set"] is None'
expect 0 env SPILLWAY_STATE_DIR="$elsewhere" "$spillway" stat --format csv
python3 - "$out" <<'END' || fail 'of a page what is not known is empty in CSV'
import csv, sys
for row in csv.DictReader(open(sys.argv[1])):
    if row["job"] == "near":
        sys.exit(not (row["device_charged [B]"] == "12582912 B" and row["limit_set [B]"] == "8388608 B"
                      and row["user"] and row["launches"] == "" and row["spilled_bytes [B]"] == ""))
sys.exit(1)
END
chmod 700 "$SPILLWAY_STATE_DIR"
# It is reached there, too.
expect 0 env SPILLWAY_STATE_DIR="$elsewhere" "$spillway" set near --memory 16MiB
says "$out" '^gpu 0: limit 16\.0 MiB'

# What is no page, or a forged one, is said in one line and harms nobody.
page=$(page_of near)
mkfifo "$SPILLWAY_NODE_DIR/job-0-pipe-0.page"
ln -s /etc/passwd "$SPILLWAY_NODE_DIR/job-0-link-0.page"
truncate -s 1T "$SPILLWAY_NODE_DIR/job-0-huge-0.page"
head -c 100 "$page" >"$SPILLWAY_NODE_DIR/job-0-short-0.page"
cp "$page" "$SPILLWAY_NODE_DIR/job-0-copy-0.page"
{ head -c 8 "$page" && printf '\143\0\0\0' && tail -c +13 "$page"; } >"$SPILLWAY_NODE_DIR/job-0-future-0.page"
head -c 5000 /dev/urandom >"$SPILLWAY_NODE_DIR/job-0-noise-0.page"
for format in text json csv prometheus; do
	expect 0 timeout 100 "$spillway" stat --format $format
	says "$out" alone
	[ $format = prometheus ] || says "$err" '^spillway: .*/node: 7 pages cannot be read and not shown: job-0-[a-z]*-0\.page: '
	[ "$(wc -l <"$err")" -le 1 ] || fail 'one line is enough'
done
rm "$SPILLWAY_NODE_DIR"/job-0-*-0.page

# A killed job is known as dead; one that ends takes its page along.
kill -9 "$near"
wait "$near" 2>/dev/null
expect 0 env SPILLWAY_STATE_DIR="$elsewhere" "$spillway" stat
says_not "$out" '^near '
says "$out" "^1 job has ended: 'spillway stat --all' lists it\$"
expect 0 env SPILLWAY_STATE_DIR="$elsewhere" "$spillway" stat --all
says "$out" "^near +$me +ended +0 "
SPILLWAY_STATE_DIR=$elsewhere "$spillway" doctor --clean >"$out" 2>"$err"
says "$out" 'pages of killed jobs: 1 removed'
kill "$alone"
wait "$alone" 2>/dev/null
expect 0 env SPILLWAY_STATE_DIR="$elsewhere" "$spillway" stat
says "$out" '^no jobs in '
rm -f "$SPILLWAY_NODE_DIR"/*

# Of several users, which takes root to try.
if [ "$(id -u)" -eq 0 ]; then
	as_other="setpriv --reuid 65533 --regid 65533 --clear-groups env SPILLWAY_STATE_DIR=$common/state-65533"
	for user in 65532 65533; do
		install -d -m 700 -o $user -g $user "$common/state-$user"
	done
	SPILLWAY_LABELS=SLURM_JOB_ID=4711 start_as 65532 theirs -m 12582912
	theirs=$pid
	page_of theirs >"$out"
	expect 0 "$spillway" stat
	says "$out" '^theirs +65532 +running +1 +0 +12\.0 MiB .* SLURM_JOB_ID=4711$'
	# shellcheck disable=SC2086 # words
	expect 0 $as_other "$spillway" stat
	says "$out" '^theirs +65532 +running +1 +0 +12\.0 MiB .* SLURM_JOB_ID=4711$'

	# `top` counts them as others'.
	if command -v tmux >/dev/null; then
		tmux -S "$TMPDIR/tmux" -f /dev/null new-session -d -s top -x 80 -y 24 "exec '$spillway' top --interval 50ms"
		tries=0
		until tmux -S "$TMPDIR/tmux" capture-pane -p -t top | tee "$out" |
			grep -Eq '^GPU 0 Fake GPU +you +0 others 12\.0M free 1012M busy +- jobs  1$'; do
			tries=$((tries + 1))
			[ $tries -lt 1200 ] || break
			sleep 0.05
		done
		[ $tries -lt 1200 ] || fail 'top does not count the memory of others'

		# Keys that change another user's job ask before; all but y leave it as it is.
		sees() { # sees PATTERN: on the screen, in time
			tries=0
			until tmux -S "$TMPDIR/tmux" capture-pane -p -t top | tee "$out" | grep -Eq -- "$1"; do
				tries=$((tries + 1))
				[ $tries -lt 1200 ] || {
					fail "the screen does not show /$1/"
					return
				}
				sleep 0.05
			done
		}
		key() { tmux -S "$TMPDIR/tmux" send-keys -t top "$@"; }
		override=$common/state-65532/theirs.override.ini
		key e
		sees '^evict 65532/theirs, a job of user 65532\? y/n: it stops, and its memory goes to$'
		key n
		sees '^nothing is changed$'
		key m 1 G Enter
		sees '^set 65532/theirs to 1G, a job of user 65532\? y/n: its limits change '
		key x
		sees '^nothing is changed$'
		for question in m: p: M:' on gpu 0' P:' on gpu 0'; do
			key "${question%%:*}" 5 0 % Enter
			sees '^set 65532/theirs to 50%, a job of user 65532\? y/n: '
			key n
			sees '^nothing is changed$'
			key s
		done
		[ ! -e "$override" ] || fail "top changed the job of another user unasked: $(cat "$override")"
		key z
		sees '^pause 65532/theirs, a job of user 65532\? y/n: it stops at its next launch'
		key y
		sees ' 65532/th.* paused '
		key r
		sees '^resume 65532/theirs, a job of user 65532\? y/n: it goes on'
		key y
		sees '^gpu 0: .* share 100 %$'
		tmux -S "$TMPDIR/tmux" kill-server
	fi

	# A share beside another user's job holds by a turn file of root's alone; stat says so.
	SPILLWAY_SHARE=60 start_job mine -c share_held=59960
	expect 0 "$spillway" stat mine
	says "$out" ' 60\.0 ?%\* '
	says "$out" "^\\* by this user's jobs alone: .* As root: spillway doctor --setup --group GROUP\$"
	uuid=$("$spillway" stat mine --json | grep -o 'GPU-[0-9a-zA-Z-]*' | head -n 1)
	mine=$pid
	SPILLWAY_SHARE=60 start_as 65532 half -c share_held=59960
	half=$pid
	page_of half >"$out"
	apart() { # apart JOB... : these are marked, in all forms
		expect 0 "$spillway" stat
		[ "$(sed -n 's/^\([a-z]*\) .* 60\.0%\*.*/\1/p' "$out" | sort | paste -s -d ' ')" = "$*" ] || fail "marked are not $*: $(cat "$out")"
		expect 0 "$spillway" stat --json
		json "sorted(j['job'] for j in d['jobs'] if j['devices'][0]['share_apart']) == '$*'.split()"
		expect 0 "$spillway" top
		[ "$(sed -n 's/^ *[0-9]* *\([0-9]*[/]\)*\([a-z]*\) .* 60\.0%\*.*/\2/p' "$out" | sort | paste -s -d ' ')" = "$*" ] ||
			fail "top does not mark $*: $(cat "$out")"
	}
	apart half mine
	says "$out" "^\\* by this user's jobs alone: "
	# Root's file serves the jobs that may write to it: those of root, then of the group, too.
	(umask 007 && : >"$SPILLWAY_NODE_DIR/turns-$uuid")
	expect 0 "$spillway" stat mine
	says_not "$out" '\*'
	apart half
	chgrp 65532 "$SPILLWAY_NODE_DIR/turns-$uuid"
	apart
	says_not "$out" '\*'
	expect 0 "$spillway" stat half # root looks at it as its user
	says_not "$out" '\*'
	rm "$SPILLWAY_NODE_DIR/turns-$uuid"
	kill "$half" "$mine"
	wait "$half" 2>/dev/null
	pid=$mine
	wait "$pid" 2>/dev/null

	# Whatever another user puts there, everybody's jobs are listed, and go on telling of
	# themselves.
	# shellcheck disable=SC2086 # words
	$as_other sh -c "cd '$SPILLWAY_NODE_DIR' && seq -f 'job-65532-empty-%g.page' 5000 | xargs touch" || fail 'no 5000 files'
	before=$(stat -c %i "$(page_of theirs)")
	# shellcheck disable=SC2086 # words
	$as_other touch "$SPILLWAY_NODE_DIR/.$(basename "$(page_of theirs)").0"
	for format in text csv json; do
		expect 0 timeout 200 "$spillway" stat --format $format
		says "$out" theirs
		says "$err" '/node: 5000 pages cannot be read and not shown: job-65532-empty-'
	done
	tries=0
	while [ "$(stat -c %i "$(page_of theirs)")" = "$before" ] && [ $tries -lt 1200 ]; do
		tries=$((tries + 1))
		sleep 0.05
	done
	[ $tries -lt 1200 ] || fail 'the page of another user froze'
	find "$SPILLWAY_NODE_DIR" -user 65533 -delete

	# Root changes it, as its user would.
	expect 0 "$spillway" set theirs --memory 16MiB
	says "$out" '^gpu 0: limit 16\.0 MiB'
	override=$common/state-65532/theirs.override.ini
	[ "$(stat -c '%u %g %a' "$override")" = '65532 65532 600' ] || fail "override: $(stat -c '%u %g %a' "$override")"
	expect 0 "$spillway" pause theirs
	says "$out" 'share 0 %'
	expect 0 "$spillway" resume 65532/theirs
	says "$out" 'share 100 %'
	expect 0 "$spillway" stat theirs
	says "$out" '^job theirs: running since'
	expect 0 "$spillway" events --since @0 theirs
	says "$err" "^spillway: job 'theirs' has kept no events"
	expect 0 "$spillway" top theirs
	says "$out" 'theirs'
	expect 0 "$spillway" stat --format prometheus
	says "$out" '^spillway_job_info\{spillway_job="theirs",user="65532",state="running",label_SLURM_JOB_ID="4711"\} 1$'
	says "$out" '^spillway_device_charged_bytes\{spillway_job="theirs",user="65532",gpu="0",UUID="[^"]*"\} 12582912$'
	says "$out" '^spillway_launches_total\{spillway_job="theirs",user="65532",'
	expect 0 "$spillway" top
	says "$out" '^ *[0-9]+ +65532/theirs '
	# shellcheck disable=SC2086 # words
	expect 0 $as_other "$spillway" stat --format prometheus
	grep -q '^spillway_launches_total{spillway_job="theirs"' "$out" && fail 'the counters of another user are shown'
	[ -z "$(find "$common/state-65532" ! -user 65532)" ] || fail 'root left files of its own with that user'
	# Nobody else does.
	for command in 'set theirs --memory 1MiB' 'pause theirs' 'resume theirs' 'stat theirs'; do
		# shellcheck disable=SC2086 # words
		expect 1 $as_other "$spillway" $command
		says "$err" "^spillway: job 'theirs' is user 65532's: expected that user or root$"
	done
	grep -q 16MiB "$override" || fail 'another user changed it'

	# Of the same name: root says whose.
	start_as 65533 theirs -m 4096
	tries=0
	until [ "$(find "$SPILLWAY_NODE_DIR" -name '*.page' | wc -l)" -eq 2 ] || [ $tries -gt 1200 ]; do
		tries=$((tries + 1))
		sleep 0.05
	done
	expect 1 "$spillway" set theirs --memory 1GiB
	says "$err" "^spillway: which 'theirs'\? There are 65532/theirs \(running since .*, 1 process, process $theirs, SLURM_JOB_ID=4711, in .*\); 65533/theirs \(.*\); expected one of these as USER/JOB or"
	expect 0 "$spillway" set 65533/theirs --memory 64MiB
	says "$out" '^gpu 0: limit 64\.0 MiB'
	grep -q 16MiB "$override" || fail 'the wrong job was changed'

	# A page that leads elsewhere leads no further than its owner could go.
	kill "$pid"
	wait "$pid" 2>/dev/null
	page=$(page_of theirs)
	# shellcheck disable=SC2086 # words
	python3 - "$page" "$common/state-65532" <<'END' | $as_other tee "$SPILLWAY_NODE_DIR/job-65533-trap-0000000000000007.page" >"$out"
import sys
page = bytearray(open(sys.argv[1], "rb").read())
job, directory = page.index(b"theirs\0"), page.index(sys.argv[2].encode())
page[job:job + 7] = b"trap\0\0\0"
page[56:72] = 2 * (7).to_bytes(8, "little")
sys.stdout.buffer.write(page)
END
	expect 0 "$spillway" stat
	says "$out" '^trap +65533 +running'
	says "$out" '^trap +65533 .* +0 B +- +100 % +- +- +- ' # and is not looked at in full
	expect 1 "$spillway" set trap --memory 1MiB
	says "$err" 'state-65532: (belongs to user 65532, expected a directory of user 65533|Permission denied)'
	[ ! -e "$common/state-65532/trap.override.ini" ] || fail 'a forged page led root into the directory of another user'
	# A killed job of another user holds nothing, to root as to every observer: its page is what
	# it said last.
	rm "$SPILLWAY_NODE_DIR/job-65533-trap-0000000000000007.page"
	kill -9 "$theirs"
	wait "$theirs" 2>/dev/null
	# shellcheck disable=SC2086 # words
	expect 0 $as_other "$spillway" stat --all
	says "$out" '^theirs +65532 +ended +0 +0 +0 B '
	# shellcheck disable=SC2086 # words
	expect 0 $as_other "$spillway" stat --format prometheus
	says "$out" '^spillway_device_charged_bytes\{spillway_job="theirs",user="65532",gpu="0",UUID="[^"]*"\} 0$'
	grep '^spillway_gpu_jobs_bytes' "$out" | grep -v ' 0$' && fail 'memory of killed jobs is charged to a GPU'
	# shellcheck disable=SC2086 # words
	expect 0 $as_other "$spillway" stat --json
	json '[j["devices"][0]["device_charged"] for j in d["node_jobs"]] == [0]'
	rm -f "$SPILLWAY_NODE_DIR"/*

	# Of one user and one name, in two containers that call their state directories alike: the
	# token tells them apart.
	if ! unshare --mount true 2>/dev/null; then
		echo 'no namespaces can be made here: two containers are not tried'
		finish
	fi
	same=$common/state-65531
	install -d -m 700 -o 65531 -g 65531 "$same"
	contained() { # contained NUMBER ARGUMENTS...: a job called twin in a container of its own
		log=$TMPDIR/contained-$1.log
		shift
		: >"$log"
		SPILLWAY_STATE_DIR=$same SPILLWAY_JOB=twin unshare --mount --pid --fork --kill-child --mount-proc sh -c "
			mount -t tmpfs -o mode=700,uid=65531,gid=65531 none '$same' &&
			exec setpriv --reuid 65531 --regid 65531 --clear-groups '$fake_job' $*" >"$log" 2>&1 &
		pid=$!
		jobs_started="$jobs_started $pid"
		wait_for ready "$log"
	}
	# reached WHAT TOKEN LIMIT: the job with this token has that limit, the other has not
	limit_of() {
		expect 0 timeout 200 "$spillway" stat "65531/twin@$1" --json
		python3 -c "import json; d = json.load(open('$out')); print(d['devices'][0]['limit_set'])"
	}
	contained 1 -m 4096
	first=$pid
	page_of twin >"$out"
	expect 0 "$spillway" set 65531/twin --memory 32MiB # alone it needs none
	contained 2 -m 8192
	second=$pid
	tries=0
	until [ "$(find "$SPILLWAY_NODE_DIR" -name 'job-*-twin-*.page' | wc -l)" -eq 2 ] || [ $tries -gt 1200 ]; do
		tries=$((tries + 1))
		sleep 0.05
	done
	expect 0 "$spillway" stat
	cp "$out" "$TMPDIR/listed"
	says "$out" '^twin@[0-9a-f]{4,16} +65531 +running +1 +0 +4\.00 KiB '
	says "$out" '^twin@[0-9a-f]{4,16} +65531 +running +1 +0 +8\.00 KiB '
	one=$(sed -n 's/^twin@\([0-9a-f]*\) .* 4\.00 KiB .*/\1/p' "$TMPDIR/listed")
	two=$(sed -n 's/^twin@\([0-9a-f]*\) .* 8\.00 KiB .*/\1/p' "$TMPDIR/listed")
	expect 0 "$spillway" stat --json
	json "sorted(j['token'][:len('$one')] for j in d['jobs'] if j['job'] == 'twin') == sorted(['$one', '$two'])"
	for command in 'stat' 'set --share 30' 'pause' 'resume'; do
		# shellcheck disable=SC2086 # words
		expect 1 timeout 200 "$spillway" $command 65531/twin
		says "$err" "^spillway: which '65531/twin'\? There are .*; expected one of these as USER/JOB or USER/JOB@TOKEN$"
		says "$err" "65531/twin@$one \(running since .*, 1 process, process [0-9]+, in $same\)"
		says "$err" "65531/twin@$two \(running since .*, 1 process, process [0-9]+, in $same\)"
	done
	# What is of that name in that directory here is another one, and is left alone.
	SPILLWAY_STATE_DIR=$same SPILLWAY_NODE_DIR=/nonexistent SPILLWAY_JOB=twin \
		setpriv --reuid 65531 --regid 65531 --clear-groups "$fake_job" -m 99 >"$TMPDIR/third.log" 2>&1 &
	third=$!
	jobs_started="$jobs_started $third"
	wait_for ready "$TMPDIR/third.log"
	expect 0 timeout 200 "$spillway" set "65531/twin@$one" --memory 64MiB
	says "$out" '^gpu 0: limit 64\.0 MiB'
	expect 0 timeout 200 "$spillway" set "twin@$two" --memory 128MiB
	says "$out" '^gpu 0: limit 128 MiB'
	[ "$(limit_of "$one")-$(limit_of "$two")" = 67108864-134217728 ] || fail "limits: $(limit_of "$one")-$(limit_of "$two")"
	[ ! -e "$same/twin.override.ini" ] || fail 'the limit of another job of that name was changed'
	for command in 'pause' 'resume'; do
		expect 0 timeout 200 "$spillway" $command "twin@$one"
	done
	expect 1 "$spillway" stat "65531/twin@00000000000000000"
	expect 1 "$spillway" stat "65531/twin@ffffffffffffffff"
	says "$err" "'65531/twin@ffffffffffffffff'"
	# completion offers them so
	bash -c '. tools/completion/spillway.bash; COMP_WORDS=("$1" set tw) COMP_CWORD=2; _spillway "$1" tw set; printf "%s\n" "${COMPREPLY[@]}"' bash "$spillway" >"$out"
	[ "$(sort "$out")" = "$(printf 'twin@%s\n' "$one" "$two" | sort)" ] || fail 'completion'
	kill "$first" "$second" "$third"
fi
finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# A memory cgroup of its own, with a limit: the OOM killer ends a process of a job while its memory
# moves. The other process of the job goes on and computes its right result, and the books are
# exact. The host's limit follows the cgroup's while the job runs.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
for version in 1 2; do
	case $version in
	1) group=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup) limit=memory.limit_in_bytes used=memory.usage_in_bytes kills=memory.oom_control ;;
	2) group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup) limit=memory.max used=memory.current kills=memory.events ;;
	esac
	group=$group/spillway-test-$$
	! mkdir "$group" 2>/dev/null || {
		[ ! -e "$group/$limit" ] || break
		rmdir "$group"
	}
	group=
done
[ -n "$group" ] || {
	echo "no memory cgroup can be made here"
	exit 77
}
removed() { rmdir "$group"; }
ended() {
	while read -r pid; do kill -KILL "$pid" 2>/dev/null || true; done <"$group/cgroup.procs"
	until_true 20 removed || true
	end_started
}
trap ended EXIT
# limited BYTES: the cgroup is
limited() { echo "$1" >"$group/$limit"; }
# within SCORE COMMAND...: in the cgroup; the higher the score the sooner killed
cat >"$scratch/within" <<END
#!/bin/sh
echo \$\$ >"$group/cgroup.procs"
echo "\$1" >/proc/self/oom_score_adj
shift
exec "\$@"
END
chmod +x "$scratch/within"
export SOFTGPU_MEMORY=128M SOFTGPU_HOST_BANDWIDTH=500M
moves=$build/tests/e2e/moves

# The host's limit follows the cgroup's.
limited $((512 * mib))
limit_file "$scratch/follows.ini" 16MiB
start_driven follows "$scratch/follows.ini"
wants 0 alloc c 1024
pid_of follows >"$group/cgroup.procs"
wants 0 alloc a 32768
wants 0 fill a 1
limited $(($(cat "$group/$used") + 16 * mib))
wants 2 alloc b 65536
same "why" host_full "$(counter follows refused_reason)"
limited $((512 * mib))
wants 0 alloc b 65536
wants 0 fill b 2
wants 0 check a 1
wants 0 check b 2
end_driven

# Two processes of a job, whose memory moves all the time; a third program takes what is left, and
# the first is killed for it.
limit_file "$scratch/job.ini" 64MiB
export SPILLWAY_CONFIG="$scratch/job.ini" SPILLWAY_JOB=job
for who in victim survivor; do
	case $who in victim) score=1000 ;; survivor) score=0 ;; esac
	LD_LIBRARY_PATH=$softgpu "$scratch/within" "$score" env LD_PRELOAD="$shim" "$moves" --mib 48 --until "$scratch/end" \
		>"$scratch/$who" 2>"$scratch/$who.errors" &
	eval "$who=$!"
done
until_true $patience counter_at_least job launches 20 || fail "does not begin: $(cat "$scratch"/*.errors)"
(
	while [ ! -e "$scratch/end" ]; do
		limit_file "$scratch/job.ini" 24MiB
		sleep 0.2
		limit_file "$scratch/job.ini" 120MiB
		sleep 0.2
	done
) &
moved() { counter_at_least job demotions 2; }
until_true $patience moved || fail "nothing moves: $("$spillway" stat job)"
limited $(($(cat "$group/$used") + 24 * mib))
"$scratch/within" 500 python3 -c '
import sys
held = []
while "oom_kill 0\n" in open(sys.argv[1]).read():
    held.append(b"x" * (1 << 20))' "$group/$kills" >"$scratch/hog" 2>&1 &
# shellcheck disable=SC2154 # set by eval
is_gone() { ! kill -0 "$victim" 2>/dev/null; }
until_true $patience is_gone || fail "nobody is killed: $(cat "$group/$kills")"
status=0
wait "$victim" || status=$?
same "the victim's status" 137 $status
wait $! || true
limited $((1024 * mib))
# shellcheck disable=SC2154
kill -0 "$survivor" 2>/dev/null || fail "the other process ended, too: $(wait "$survivor" || echo "status $?"): $(cat "$group/$kills" "$scratch/survivor.errors" "$scratch/survivor")"
before=$(counter job launches)
goes_on() { counter_at_least job launches $((before + 20)); }
until_true $patience goes_on || fail "the other process does not go on: $("$spillway" stat job)"
touch "$scratch/end"
wait "$survivor" || fail "the other process: $(cat "$scratch/survivor.errors")"
unset SPILLWAY_CONFIG SPILLWAY_JOB
steps=$(sed -n 's/^steps=\([0-9,]*\) .*/\1/p' "$scratch/survivor")
mkdir "$scratch/alone"
same "what it computed" "$(SOFTGPU_STATE_DIR=$scratch/alone on_softgpu "$moves" --mib 48 --steps "$steps")" "$(cat "$scratch/survivor")"
is_exact() { [ "$(counter job device_used) $(counter job host_used)" = "0 0" ]; }
until_true $patience is_exact || fail "the books: $("$spillway" stat job)"
same "bytes that stay on the device" 0 "$(device_bytes)"

#!/bin/sh
# SPDX-License-Identifier: MIT
# Slurm: memory and share that are asked for at submission hold on the node, with any job. Debian's
# own slurmctld, slurmd and munge run. The software GPU counts a job's memory.
set -eu
# shellcheck source=tests/cluster/slurm.sh
. tests/cluster/slurm.sh

# Bytes on the device, of one user's processes or of all.
held_by() {
	"$softgpu/softgpu-truth" | while read -r device pid bytes rest; do
		[ "$device" = 0 ] && [ "$(stat -c %u "/proc/$pid" 2>/dev/null)" = "$1" ] && echo "$bytes"
	done | awk '{ sum += $1 } END { print sum + 0 }'
}
holds() { [ "$(held_by "$1")" -eq "$2" ]; }
is_held() { [ "$(device_bytes)" -eq "$1" ]; }

plugged
start_slurm

# A bad value is refused where it is written, by the parser of `spillway set`; no job is made of it.
refused() { # refused MESSAGE COMMAND...
	expected=$1
	shift
	as $alice "$@" >"$scratch/out" 2>&1 && fail "$*: was taken"
	has "$*" "$(cat "$scratch/out")" "$expected"
}
refused "expected a size such as 8GiB or 512M, a percentage such as 50%, or unlimited" srun --gpu-mem=lots true
refused "expected a percentage from 0 to 100 such as 70" sbatch --gpu-share=101 --wrap true
refused "expected opportunistic, normal or guaranteed" salloc --gpu-priority=high true
same "jobs made of bad values" "" "$(squeue --noheader)"

kept "no escape" env
kept "another job name" env SPILLWAY_JOB=other
kept "SPILLWAY_DISABLE" env SPILLWAY_DISABLE=yes CUDA_DISABLE_CONTROL=true
# shellcheck disable=SC2086 # words
kept "a cleared environment" env -i $machine
kept "unset LD_PRELOAD" env -u LD_PRELOAD LD_LIBRARY_PATH=/mnt/driver
mkdir -m 1777 $touched/state
kept "another state directory" env SPILLWAY_STATE_DIR=$touched/state
kept "another limit" env SPILLWAY_MEMORY=1GiB SPILLWAY_CONFIG=/mnt/nothing.ini
kept "spillway run" /mnt/bin/spillway run --name mine --memory 1GiB

# Nothing of it is seen outside the task.
same "the machine's preload list" "" "$(cat /etc/ld.so.preload)"
same "the machine's settings" "" "$(cat /etc/spillway/spillway.ini)"

# Steps: all of a job is one job, and a step has its limits whatever it asks for; it can lower them.
batch "#SBATCH --gpu-mem=24M
srun --gpu-mem=64M $allocate --mib 8 --count 6 --ready $touched/step1 --until $touched/go &
SPILLWAY_LABELS=user=bob $allocate --mib 8 --count 2 --ready $touched/step2 --until $touched/go &
until [ -e $touched/counted ]; do sleep 0.1; done
/mnt/bin/spillway set slurm-\$SLURM_JOB_ID --memory 8MiB && touch $touched/lower
wait" --gres=gpu:1 --nodes=1 --ntasks=2
until_true $patience test -e $touched/step2 || fail "steps: $(cat $touched/"$id"_*.out)"
until_true $patience test -e $touched/step1 || fail "steps: $(cat $touched/"$id"_*.out)"
until_true $patience is_held $((24 * mib)) || fail "three processes of a job of 24 MiB hold $(device_bytes)"
state=$(find $jobs -name state)
case $state in $jobs/*) ;; *) fail "the state is at '$state', where a logout may remove it" ;; esac
same "processes of the job" 3 "$(as $alice env SPILLWAY_STATE_DIR="$state" /mnt/bin/spillway stat --json "slurm-$id" | grep -o '"pid":' | grep -c .)"
has "labels" "$(as $alice env SPILLWAY_STATE_DIR="$state" /mnt/bin/spillway stat --json "slurm-$id")" \
	"\"labels\":\"user=alice,partition=gpu,job=$id\""
: >$touched/counted
until_true $patience is_held $((8 * mib)) || fail "three processes of a job that was lowered to 8 MiB hold $(device_bytes)"
: >$touched/go
ended "$id"
has "a step that asks for more" "$(cat $touched/"$id"_*.out)" \
	"spillway: --gpu-mem=64M: not followed: a step has its job's limits"
test -e $touched/lower || fail "a step could not lower its job's limit: $(cat $touched/"$id"_*.out)"

# What a user puts beside the job's state goes, too, and what links there lead to stays.
mkdir $touched/kept
: >$touched/kept/file
as $alice srun --quiet --gres=gpu:1 --gpu-mem=16M sh -c "cd $jobs/n1/*/state && mkdir -p a/b && ln -s $touched/kept a/b/link &&
	ln -s $touched/kept link && : >a/file" || fail "files beside the state"
until_true $patience leaves_nothing || fail "the epilog leaves $(find $jobs)"
test -e $touched/kept/file || fail "the epilog followed a link"

# What was used is in AdminComment, without slurmdbd.
until_true $patience leaves_nothing || fail "the epilog leaves $(find $jobs)"
has "AdminComment" "$(comment_of "$id")" "spillway node=n1 peak=24MiB spilled="

# What salloc was given its steps have, one after the other.
as $alice salloc --quiet --gres=gpu:1 --gpu-mem=16M srun --quiet $allocate --mib 8 --count 6 --ready $touched/salloc \
	--until $touched/enough >"$scratch/out" 2>&1 &
task=$!
until_true $patience test -e $touched/salloc || fail "salloc: $(cat "$scratch/out")"
same "salloc" $((16 * mib)) "$(device_bytes)"
: >$touched/enough
wait $task || fail "salloc: $(cat "$scratch/out")"
rm $touched/enough

# An array: each member is a job of its own, and says which.
batch "cat /etc/spillway/spillway.ini" --array=3-4 --gpu-mem=8M --gres=gpu:1
ended "$id"
for member in 3 4; do
	has "member $member" "$(cat "$touched/${id}_$member.out")" "array=${id}_$member"
done

# Two users on one GPU, by shards: each has its part of memory.
memory=$((2048 * mib)) # of the software GPU
for user in $alice:2 $bob:4; do
	as "${user%:*}" srun --quiet --nodelist=n1 --gres=shard:"${user#*:}" \
		$allocate --mib 64 --count 24 --ready "$touched/${user%:*}" --until $touched/both >"$scratch/${user%:*}" 2>&1 &
done
for user in $alice $bob; do
	until_true $patience test -e "$touched/$user" || fail "shards: $(cat "$scratch/$user")"
done
until_true $patience holds $alice $((memory / 4)) || fail "2 of 8 shards hold $(held_by $alice)"
until_true $patience holds $bob $((memory / 2)) || fail "4 of 8 shards hold $(held_by $bob)"
: >$touched/both
wait

# A job that is cancelled, a node's daemon that starts anew meanwhile.
batch "exec $allocate --mib 8 --count 6 --ready $touched/cancelled --hold-ms 600000" --gres=gpu:1 --gpu-mem=16M
until_true $patience test -e $touched/cancelled || fail "$(cat $touched/"$id"_*.out)"
stop_node n1
start_node n1
same "beside a new slurmd" $((16 * mib)) "$(device_bytes)"
as $alice scancel "$id"
ended "$id"
until_true $patience holds $alice 0 || fail "a cancelled job holds $(held_by $alice)"
until_true $patience leaves_nothing || fail "the epilog leaves $(find $jobs)"

# A job over two nodes: each enforces its own part, and tells what was used there.
as $alice srun --quiet --nodes=2 --ntasks-per-node=1 --gres=gpu:1 --gpu-mem=16M \
	sh -c "exec $allocate --mib 8 --count 6 --ready $touched/\$SLURMD_NODENAME --until $touched/two" >"$scratch/out" 2>&1 &
task=$!
for name in n1 n2; do
	until_true $patience test -e "$touched/$name" || fail "two nodes: $(cat "$scratch/out")"
done
same "two nodes" $((32 * mib)) "$(device_bytes)"
id=$(squeue --noheader --format %A)
: >$touched/two
wait $task || fail "two nodes: $(cat "$scratch/out")"
until_true $patience leaves_nothing || fail "the epilogs leave $(find $jobs)"
has "two nodes" "$(comment_of "$id")" "node=n1 peak=16MiB"
has "two nodes" "$(comment_of "$id")" "node=n2 peak=16MiB"

# What the node sets is above all.
printf '[ceiling]\nmemory = 8MiB\n' >/etc/spillway/spillway.ini
as $alice srun --quiet --gres=gpu:1 --gpu-mem=16M $allocate --mib 8 --count 6 --ready $touched/ceiling --until $touched/enough \
	>"$scratch/out" 2>&1 &
task=$!
until_true $patience test -e $touched/ceiling || fail "ceiling: $(cat "$scratch/out")"
same "below the node's ceiling" $((8 * mib)) "$(device_bytes)"
: >$touched/enough
wait $task || fail "ceiling: $(cat "$scratch/out")"
printf '[ceiling]\nmemory = much\n' >/etc/spillway/spillway.ini
as $alice srun --quiet --gres=gpu:1 --gpu-mem=16M $allocate >"$scratch/out" 2>&1 && fail "it ran with bad settings of the node"
: >/etc/spillway/spillway.ini

# A job that cannot be limited fails, with a line; the node stays in service. One without a GPU is
# left alone.
mv /mnt/bin/lib/libspillway.so /mnt/bin/lib/away.so
as $alice srun --gres=gpu:1 --gpu-mem=16M true >"$scratch/out" 2>&1 && fail "it ran without the shim"
has "without the shim" "$(cat "$scratch/out")" \
	"spillway: the job's limits cannot be enforced here: /mnt/bin/lib/libspillway.so: No such file or directory"
mv /mnt/bin/lib/away.so /mnt/bin/lib/libspillway.so
plugged default-share=lots
as $alice srun --gres=gpu:1 true >"$scratch/out" 2>&1 && fail "it ran with bad words in plugstack.conf"
has "plugstack.conf" "$(cat "$scratch/out")" "plugstack.conf: default-share=lots: expected a percentage"
plugged default-mem=32M
same "without a GPU" "" "$(as $alice srun --quiet cat /etc/spillway/spillway.ini)"
has "a default" "$(as $alice srun --quiet --gres=gpu:1 cat /etc/spillway/spillway.ini)" "memory = 32M"
until_true $patience are_idle || fail "a node is out of service: $(sinfo --Node --long)"
until_true $patience leaves_nothing || fail "the epilog leaves $(find $jobs)"

# A user who submits without the plugin: shards and defaults are the node's all the same.
sed "s,^PlugStackConfig=.*,PlugStackConfig=/mnt/none.conf," "$slurm/slurm.conf" >/mnt/own.conf
cp "$slurm/gres.conf" "$slurm/cgroup.conf" /mnt
has "a submission without the plugin" \
	"$(as $alice env SLURM_CONF=/mnt/own.conf srun --quiet --gres=shard:2 cat /etc/spillway/spillway.ini)" "memory = 25"

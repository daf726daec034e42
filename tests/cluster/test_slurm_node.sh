#!/bin/sh
# SPDX-License-Identifier: MIT
# Slurm: a node's own files bind its jobs, with any request. A user's attacks on Slurm's processes
# keep neither the job nor the node from ending it.
set -eu
shards=80000 # as who gives out a GPU's memory by MiB
# shellcheck source=tests/cluster/slurm.sh
. tests/cluster/slurm.sh
plugged
start_slurm

# asks OPTION...: what a task of alice's is under then, as the shim reads it
asks() {
	as $alice srun --quiet --nodelist=n1 "$@" /mnt/bin/spillway doctor --all >"$scratch/out" 2>&1 || true
}
says() { # says WHAT TEXT...
	what=$1
	shift
	for text; do
		has "$what" "$(cat "$scratch/out")" "$text"
	done
}
# holds MIB OPTION...: so much of what a program of alice's wants is on the GPU
holds() {
	expected=$(($1 * mib))
	shift
	rm -f $touched/holds $touched/until
	as $alice srun --quiet --nodelist=n1 "$@" $allocate --mib 8 --count 6 --ready $touched/holds --until $touched/until >"$scratch/out" 2>&1 &
	task=$!
	until_true $patience test -e $touched/holds || fail "$*: $(cat "$scratch/out")"
	same "$*: bytes on the device" $expected "$(device_bytes)"
	: >$touched/until
	wait $task || fail "$*: $(cat "$scratch/out")"
}

# A limit grows no further than the ceiling on it.
configured '[ceiling]' 'memory = 16MiB'
asks --gres=gpu:1 --gpu-mem=8MiB --gpu-mem-max=64M
says "growth below the ceiling" "memory = 8MiB" "memory_max = 16MiB"

# What an enforced file sets is the most, and what it says of itself gives way to the job's.
configured '[job]' 'name = all' 'labels = a=b' '[ceiling]' 'enforce = yes' 'per = user' "state_dir = $touched" \
	'[gpu]' 'memory = 16MiB' 'share_policy = cap'
asks --gres=shard:60000 --gpu-priority=guaranteed
says "an enforced file" "memory = 75.000%: no more than the ceiling of 16MiB" "share = 75" "share_policy = weight" "priority = normal"
asks --gres=gpu:1 --gpu-mem-max=64M
says "growth below an enforced limit" "memory = 16MiB" "memory_max = 16MiB"
holds 16 --gres=shard:60000
configured '[ceiling]' 'enforce = yes' '[gpu 0000:01:00.0]' 'memory = 8MiB'
as $alice srun --gres=gpu:1 --gpu-mem=16M true >"$scratch/out" 2>&1 && fail "a single GPU's limit gave way"
says "a single GPU's limit" "the job's limits cannot be enforced here: $ini: [gpu 0000:01:00.0] memory: expected in [gpu] or [ceiling]"
holds 8 --gres=gpu:1 --gpu-share=50
configured '[ceiling]' 'memory = much'
as $alice srun --gres=gpu:1 --gpu-mem=16M true >"$scratch/out" 2>&1 && fail "it ran with bad settings of the node"
says "bad settings" "$ini:2: memory = much: expected a size"
: >$ini

# Of many shards each counts.
has "shards" "$(as $alice srun --quiet --nodelist=n1 --gres=shard:60000 cat $ini)" "memory = 75.000%"

# The machine's list of what is preloaded, however it is written.
printf '# libspillway.so\nlibm.so.6:libspillway.so libdl.so.2' >/etc/ld.so.preload
same "the list" "libm.so.6
libdl.so.2
/mnt/bin/lib/libspillway.so
/mnt/bin/lib/libspillway-alias.so" "$(as $alice srun --quiet --nodelist=n1 --gres=gpu:1 --gpu-mem=16M cat /etc/ld.so.preload)"
kept "a list without an end" env
: >/etc/ld.so.preload

# Where not even the refusal can be written nothing runs.
mount -t tmpfs -o nr_inodes=3 none $jobs/n1
as $alice srun --nodelist=n1 --gres=gpu:1 --gpu-mem=16M true >"$scratch/out" 2>&1 && fail "it ran where nothing can be written"
says "no room" "the job's limits cannot be enforced here: $jobs/n1/" "the prolog did not come to its end"
until_true $patience leaves_nothing || fail "no room: the epilog leaves $(find $jobs)"
umount $jobs/n1

# However deep a user's directories are, they go.
as $alice srun --quiet --nodelist=n1 --gres=gpu:1 --gpu-mem=16M sh -c "cd $jobs/n1/*/state && python3 -c '
import os
for i in range(200):
    os.mkdir(\"deep\")
    os.chdir(\"deep\")
    open(\"file\", \"w\")'" || fail "deep directories"
until_true $patience leaves_nothing || fail "deep directories: the epilog leaves $(find $jobs | head -n 5)"

# Who reads as the user what the job used may be stopped by the user: the step and the job end all
# the same.
cat >$touched/stop.py <<'END_OF_STOP'
import os, signal, sys
task = os.getppid()
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    os._exit(0)
open("/mnt/touched/stopper", "w").write(str(os.getpid()))
while os.path.exists(f"/proc/{task}"):
    pass
while not os.path.exists("/mnt/touched/enough"):
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass
END_OF_STOP
batch "$allocate --mib 8 --count 1; python3 $touched/stop.py" --nodelist=n1 --gres=gpu:1 --gpu-mem=16M
ended "$id"
until_true $patience leaves_nothing || fail "beside a user who stops what is his: the epilog leaves $(find $jobs)"
until_true $patience are_idle || fail "a node is out of service: $(sinfo --Node --long)"
: >$touched/enough
until_true $patience is_gone "$(cat $touched/stopper)" || fail "it does not end"

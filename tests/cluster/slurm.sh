# SPDX-License-Identifier: MIT
# Sourced by the tests of Slurm: a machine of its own (node.sh). A controller and two nodes run on
# it, with the plugin and the software GPU. Its users alice and bob have the numbers 5001 and 5002.
# shellcheck shell=sh disable=SC2154,SC2034
PATH=$PATH:/usr/sbin:/sbin
for command in slurmctld slurmd srun munged setpriv; do
	command -v $command >/dev/null || {
		echo "no $command here; the package is slurmctld, slurmd, slurm-client, munge or util-linux"
		exit 77
	}
done
[ "$(id -u)" -eq 0 ] || {
	echo "Slurm's daemons need root"
	exit 77
}
# However the test ends, its daemons and their jobs do, too.
[ -n "${IN_PIDS:-}" ] || IN_PIDS=yes exec unshare --pid --fork --kill-child --mount-proc "$0"
# shellcheck source=tests/cluster/node.sh
. tests/cluster/node.sh
mount --bind "$node" /mnt # of which other users may read, too
slurm=/mnt/slurm
plugin=/mnt/bin/lib/spillway-slurm.so
jobs=/run/spillway-slurm
host=$(hostname -s)
port=$((10000 + $(od -An -N2 -tu2 /dev/urandom) % 20000)) # of the controller; those of the nodes follow
mkdir "$slurm" "$slurm/state" "$slurm/munge"
cp "$build/slurm/spillway-slurm.so" "$plugin"
for user in alice:5001 bob:5002; do
	echo "${user%:*}:x:${user#*:}:${user#*:}::/:/bin/sh" >>/etc/passwd
	echo "${user%:*}:x:${user#*:}:" >>/etc/group
done

# Both nodes are this machine, with one GPU each, which is the same; files of jobs are each node's.
cat >"$slurm/slurm.conf" <<END
ClusterName=spillway
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=$slurm/munge.socket
SlurmctldPort=$port
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdPidFile=$slurm/slurmd-%n.pid
SlurmdLogFile=$slurm/slurmd-%n.log
SlurmdSpoolDir=$slurm/spool-%n
SlurmdParameters=config_overrides
StateSaveLocation=$slurm/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu,shard
PrologFlags=Alloc
PlugStackConfig=$slurm/plugstack.conf
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmctldDebug=info
SlurmdDebug=verbose
KillWait=2
${slurm_conf:-}
NodeName=n1 NodeAddr=127.0.0.1 NodeHostname=$host Port=$((port + 1)) CPUs=8 RealMemory=1000 Gres=gpu:1,shard:${shards:=8} State=UNKNOWN
NodeName=n2 NodeAddr=127.0.0.1 NodeHostname=$host Port=$((port + 2)) CPUs=8 RealMemory=1000 Gres=gpu:1,shard:$shards State=UNKNOWN
PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=INFINITE OverSubscribe=YES State=UP
END
cat >"$slurm/gres.conf" <<END
NodeName=n[1-2] Name=gpu File=/dev/null
NodeName=n[1-2] Name=shard Count=$shards
END
echo ConstrainRAMSpace=no >"$slurm/cgroup.conf"
SLURM_CONF=$slurm/slurm.conf
export SLURM_CONF

# plugged WORD...: the plugin's line in plugstack.conf
plugged() { echo "required $plugin dir=$jobs/%n lib=/mnt/bin/lib $*" >"$slurm/plugstack.conf"; }

# as USER COMMAND...: by one of the machine's users, in a place where everybody may be
as() {
	user=$1
	shift
	(cd / && exec env -u TMPDIR setpriv --reuid "$user" --regid "$user" --clear-groups "$@")
}

start_node() { slurmd -N "$1" || fail "slurmd of $1 does not start: $(tail -n 5 "$slurm/slurmd-$1.log")"; }
stop_node() {
	pid=$(cat "$slurm/slurmd-$1.pid")
	kill "$pid"
	until_true $patience is_gone "$pid" || fail "slurmd of $1 does not end"
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }
are_idle() { [ "$(sinfo --noheader --Node --format %T | sort -u)" = idle ]; }
# has_ended JOB: neither the controller nor a node has it any more
has_ended() { [ -z "$(squeue --noheader --jobs "$1" 2>/dev/null)" ]; }
leaves_nothing() { [ -z "$(find $jobs -mindepth 2 2>/dev/null)" ]; }

start_munge() {
	[ ! -e "$slurm/munge.socket" ] || return 0
	dd if=/dev/urandom of="$slurm/munge/key" bs=1024 count=1 2>/dev/null
	chmod 400 "$slurm/munge/key"
	munged --force --key-file "$slurm/munge/key" --socket "$slurm/munge.socket" --pid-file "$slurm/munge/pid" \
		--log-file "$slurm/munge/log" --seed-file "$slurm/munge/seed" 2>/dev/null || fail "munged: $(cat "$slurm/munge/log")"
}
# start_slurm: until both nodes take jobs
start_slurm() {
	start_munge
	slurmctld || fail "slurmctld: $(tail -n 5 "$slurm/slurmctld.log")"
	start_node n1
	start_node n2
	until_true $patience are_idle || fail "nodes are not idle: $(sinfo --Node --long)"
}
# The software GPU's machine is made by root; all users write to it.
"$node/bin/allocate" >"$scratch/out" 2>&1 || LD_LIBRARY_PATH=$node/driver "$node/bin/allocate" >"$scratch/out" 2>&1 ||
	fail "no software GPU: $(cat "$scratch/out")"
chmod -R a+rw "$node/softgpu"

mib=1048576
alice=5001 bob=5002
allocate=/mnt/bin/allocate
touched=/mnt/touched # where users tell the test something
mkdir -m 1777 $touched

# kept WHAT COMMAND...: a task of alice's tries to have 48 MiB, by COMMAND allocate: 16 it has
task_count=0
kept() {
	what=$1
	shift
	task_count=$((task_count + 1))
	ready=$touched/$task_count.ready until=$touched/$task_count.until
	as $alice srun --quiet --gres=gpu:1 --gpu-mem=16M --gpu-share=50 \
		"$@" $allocate --mib 8 --count 6 --ready $ready --until $until >"$scratch/out" 2>&1 &
	task=$!
	until_true $patience test -e $ready || fail "$what: not ready: $(cat "$scratch/out")"
	same "$what: bytes on the device" $((16 * mib)) "$(device_bytes)"
	: >$until
	wait $task || fail "$what: the task failed: $(cat "$scratch/out")"
	until_true $patience leaves_nothing || fail "$what: the epilog leaves $(find $jobs)"
}

# batch SCRIPT [OPTION...]: alice's batch job; its number in $id
batch() {
	printf '#!/bin/sh\n%s\n' "$1" >$touched/script
	shift
	id=$(as $alice sbatch --parsable --output=$touched/%A_%a.out "$@" $touched/script)
}
ended() { until_true $patience has_ended "$1" || fail "job $1 does not end: $(squeue)"; }
comment_of() { scontrol show job "$1" | sed -n 's/^ *AdminComment=//p'; }

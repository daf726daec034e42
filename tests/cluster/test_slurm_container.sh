#!/bin/sh
# SPDX-License-Identifier: MIT
# Slurm with job_container/tmpfs, where a job has a mount namespace of its own that its tasks share.
# Limits hold as without it (test_slurm.sh).
set -eu
# On one processor: Linux 6.18 takes a mount namespace that was made on another one for an older
# one, and does not bind it where Slurm's plugin keeps those of jobs (EINVAL).
if [ -z "${ON_ONE:-}" ]; then
	first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
	ON_ONE=yes exec taskset -c "$first" "$0"
fi
slurm_conf='JobContainerType=job_container/tmpfs
PrologFlags=Alloc,Contain'
# shellcheck source=tests/cluster/slurm.sh
. tests/cluster/slurm.sh
sed -i '/^PrologFlags=Alloc$/d' "$slurm/slurm.conf"
# Each node mounts over its own folder.
printf 'AutoBasePath=true\nNodeName=n1 BasePath=%s/container-n1\nNodeName=n2 BasePath=%s/container-n2\n' \
	"$slurm" "$slurm" >"$slurm/job_container.conf"
plugged
start_slurm

[ -n "$(ls -A /tmp)" ] || fail "the machine's /tmp is empty"
same "a /tmp of its own" "" "$(as $alice srun --quiet --gres=gpu:1 --gpu-mem=16M ls -A /tmp)"
kept "a container" env
# shellcheck disable=SC2086 # words
kept "a container, a cleared environment" env -i $machine
batch "srun $allocate --mib 8 --count 4 --ready $touched/step --until $touched/go" --gres=gpu:1 --gpu-mem=24M
until_true $patience test -e $touched/step || fail "a batch job: $(cat $touched/"$id"_*.out)"
same "a step of a batch job" $((24 * mib)) "$(device_bytes)"
: >$touched/go
ended "$id"
until_true $patience leaves_nothing || fail "the epilog leaves $(find $jobs)"
has "AdminComment" "$(comment_of "$id")" "spillway node=n1 peak=24MiB spilled="

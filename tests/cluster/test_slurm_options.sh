#!/bin/sh
# SPDX-License-Identifier: MIT
# Slurm: the plugin's options with bad values, twice, in a script and beside it, of a step, of each
# part of a heterogeneous job.
set -eu
slurm_conf='SchedulerParameters=bf_interval=1' # which starts heterogeneous jobs
# shellcheck source=tests/cluster/slurm.sh
. tests/cluster/slurm.sh
plugged
start_slurm
# shellcheck disable=SC2086 # $limit is words
limit="sed -n s/^memory.=.//p $ini"

# No job is made of a bad value, and what is said of it is short.
huge=$(printf '%5000s' '' | tr ' ' 8)
for value in "" " " 20 "$huge" "$(printf '8GiB\377')" "８GiB" "8GiB
[ceiling]
enforce = no"; do
	for command in srun sbatch salloc; do
		case $command in sbatch) set -- --wrap true ;; *) set -- true ;; esac
		as $alice $command --gpu-mem="$value" "$@" >"$scratch/out" 2>&1 && fail "$command: '$value' was taken"
		has "$command" "$(cat "$scratch/out")" "spillway: "
		grep 'spillway: ' "$scratch/out" | grep -q . || fail "$command: $(cat "$scratch/out")"
	done
done
printf '#!/bin/sh\n#SBATCH --gpu-share=lots\ntrue\n' >$touched/script
as $alice sbatch $touched/script >"$scratch/out" 2>&1 && fail "a bad value in a script was taken"
has "in a script" "$(cat "$scratch/out")" "expected a percentage"
same "jobs made of bad values" "" "$(squeue --noheader)"

# The last counts, and what is said beside the script counts more than what stands in it.
same "twice" 16M "$(as $alice srun --quiet --gres=gpu:1 --gpu-mem=8M --gpu-mem=16M $limit)"
batch "#SBATCH --gpu-mem=24M
$limit
srun --quiet $limit" --gres=gpu:1 --gpu-mem=16M
ended "$id"
same "beside the script" "16M 16M" "$(cat $touched/"$id"_*.out | tr "\n" " " | sed 's/ $//')"

# A step is told of what it asks for in vain: of a job that has no limits, of what the job lacks,
# and not of the same in other words.
batch "srun --quiet --gpu-mem=16M true"
ended "$id"
has "a step of a job without limits" "$(cat $touched/"$id"_*.out)" \
	"--gpu-mem=16M: not followed: a step has its job's limits, and the job was given none"
batch "srun --quiet --gpu-mem=16MiB true
echo same
srun --quiet --gpu-share=50 true" --gres=gpu:1 --gpu-mem=16M
ended "$id"
same "a step that asks for the same" same "$(head -n 1 $touched/"$id"_*.out)"
has "a step that asks for what its job lacks" "$(cat $touched/"$id"_*.out)" "--gpu-share=50: not followed"

# Each part of a heterogeneous job has its own.
as $alice srun --quiet --gres=gpu:1 --gpu-mem=16M $limit : --gres=gpu:1 --gpu-mem=8M $limit >"$scratch/out" 2>&1 ||
	fail "a heterogeneous job: $(cat "$scratch/out")"
same "parts of a heterogeneous job" "16M 8M" "$(sort "$scratch/out" | tr '\n' ' ' | sed 's/ $//')"
as $alice salloc --quiet --gres=gpu:1 --gpu-mem=16M : --gres=gpu:1 --gpu-mem=8M \
	srun --quiet --het-group=0,1 $limit >"$scratch/out" 2>&1 || fail "a heterogeneous allocation: $(cat "$scratch/out")"
same "steps of a heterogeneous job" "16M 8M" "$(sort "$scratch/out" | tr '\n' ' ' | sed 's/ $//')"
until_true $patience leaves_nothing || fail "the epilog leaves $(find $jobs)"

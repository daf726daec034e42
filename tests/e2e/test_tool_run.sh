#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway run: exit statuses, environment, names, signals, leftovers.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

# A driver that is found, whatever this machine has: where there is none a line says so.
SPILLWAY_DRIVER=$build/tests/e2e/empty.so
export SPILLWAY_DRIVER

# Exit statuses are the program's own, or as timeout(1) has them.
expect 0 "$spillway" run true
expect 7 "$spillway" run sh -c 'exit 7'
expect 127 "$spillway" run no-such-program
says "$err" '^spillway: no-such-program: not found in any folder of PATH$'
expect 126 "$spillway" run /
says "$err" '^spillway: /: '
"$spillway" run sh -c 'kill -TERM $$' 2>/dev/null
[ $? -eq 143 ] || fail 'a program ended by SIGTERM: expected 143'

# What is wrong with a command's options is helped by that command.
for words in 'run --bogus' 'stat --bogus' 'set --timeout'; do
	# shellcheck disable=SC2086 # words
	"$spillway" $words >"$out" 2>"$err" && fail "$words: expected a failure"
	says "$err" '^spillway: '
	says "$err" "^Try .spillway ${words%% *} --help'"
done

# The option that was meant is named: the shortest that begins so, else the nearest; no wild guess.
for words in 'run --mem 5G true:memory' 'run --memroy=5G true:memory' 'run --limit-gup 0 true:limit-gpu' 'stat --jsno:json'; do
	# shellcheck disable=SC2086 # words
	"$spillway" ${words%:*} >"$out" 2>"$err" && fail "$words: expected a failure"
	says "$err" "^Did you mean '--${words#*:}'\?$"
done
for words in 'run --xyzzy' 'set --timeout' 'run -x'; do
	# shellcheck disable=SC2086 # words
	"$spillway" $words >"$out" 2>"$err" && fail "$words: expected a failure"
	says_not "$err" 'Did you mean'
done

# Options end at the program; what follows is its own.
expect 0 "$spillway" run echo --memory --help
says "$out" '^--memory --help$'
expect 0 "$spillway" run -- echo --share 5
says "$out" '^--share 5$'
echo hello | "$spillway" run cat >"$out"
says "$out" '^hello$'

# The environment the program sees.
# shellcheck disable=SC2016 # for the inner shell
expect 0 env LD_PRELOAD="$tree/lib/../lib/libspillway-alias.so" "$spillway" run --name env \
	sh -c 'echo "$LD_PRELOAD"; echo "job $SPILLWAY_JOB"; echo "config $SPILLWAY_CONFIG."'
says "$out" "^$tree/lib/../lib/libspillway-alias.so:$tree/lib/libspillway.so$"
says_not "$err" .
says "$out" '^job env$'
says "$out" '^config \.$'
# shellcheck disable=SC2016
expect 0 "$spillway" run --name outer "$spillway" run --name inner sh -c 'echo "$LD_PRELOAD"'
says "$out" "^$tree/lib/libspillway.so:$tree/lib/libspillway-alias.so$"
says_not "$err" .
cp -r "$tree" "$TMPDIR/other"
# shellcheck disable=SC2016
expect 0 "$spillway" run --name outer "$TMPDIR/other/spillway" run --name inner sh -c 'echo "$LD_PRELOAD"'
says "$out" "^$tree/lib/libspillway.so:$tree/lib/libspillway-alias.so$"
says "$err" "^spillway: LD_PRELOAD has $tree/lib/libspillway.so already: it stays, in place of /.*/other/lib/libspillway.so$"

# Where glibc is 2.34 or newer, and the shim for it is there, that is taken; beside the other one
# neither comes in twice.
glibc=$(getconf GNU_LIBC_VERSION | sed -n 's/^glibc 2\.\([0-9]*\).*/\1/p')
cp "$tree/lib/libspillway.so" "$tree/lib/libspillway-2.34.so"
taken=$tree/lib/libspillway.so
[ "${glibc:-0}" -lt 34 ] || taken=$tree/lib/libspillway-2.34.so
# shellcheck disable=SC2016
expect 0 "$spillway" run --name outer "$spillway" run --name inner sh -c 'echo "$LD_PRELOAD"'
says "$out" "^$taken:$tree/lib/libspillway-alias.so$"
says_not "$err" .
for name in libspillway.so libspillway-2.34.so; do
	# shellcheck disable=SC2016
	expect 0 env LD_PRELOAD="$tree/lib/$name" "$spillway" run --name inner sh -c 'echo "$LD_PRELOAD"'
	says "$out" "^$tree/lib/$name:$tree/lib/libspillway-alias.so$"
	says_not "$err" .
	# shellcheck disable=SC2016
	expect 0 env LD_PRELOAD="$TMPDIR/other/lib/libspillway.so" "$spillway" run --name inner sh -c 'echo "$LD_PRELOAD"'
	says "$out" "^$TMPDIR/other/lib/libspillway.so:$tree/lib/libspillway-alias.so$"
	says "$err" "^spillway: LD_PRELOAD has $TMPDIR/other/lib/libspillway.so already: it stays, in place of $taken$"
done
rm "$tree/lib/libspillway-2.34.so"

# One token for all of a run, another for the next.
# shellcheck disable=SC2016
expect 0 "$spillway" run --name token sh -c 'echo "$SPILLWAY_RUN"; "$0" run --join --name token sh -c "echo \$SPILLWAY_RUN"' "$spillway"
says "$out" '^[0-9a-f]+-[0-9a-f]+$'
[ "$(sort -u "$out" | wc -l)" -eq 1 ] || fail 'a run that joins has another token'
cp "$out" "$TMPDIR/token"
# shellcheck disable=SC2016
expect 0 "$spillway" run --name token sh -c 'echo "$SPILLWAY_RUN"; "$0" run --name inner sh -c "echo \$SPILLWAY_RUN"' "$spillway"
[ "$(sort -u "$out" "$TMPDIR/token" | wc -l)" -eq 3 ] || fail 'two runs have the same token'
expect 125 "$spillway" run --softgpu true
says "$err" '^spillway: the software GPU'
mkdir -p "$tree/softgpu"
cp "$build/tests/e2e/empty.so" "$tree/softgpu/libcuda.so.1"
# shellcheck disable=SC2016
expect 0 env LD_LIBRARY_PATH=/nowhere "$spillway" run --softgpu \
	sh -c 'echo "$LD_LIBRARY_PATH"; echo "$SPILLWAY_DRIVER"'
says "$out" "^$tree/softgpu:/nowhere$"
says "$out" "^$tree/softgpu/libcuda.so.1$"

# Frameworks find the software GPU's compiler and go ways that it has. The user's own word stays.
# shellcheck disable=SC2016
frameworks='echo "$JAX_SKIP_CUDA_CONSTRAINTS_CHECK $TRITON_PTXAS_PATH $XLA_FLAGS"'
expect 0 env -u XLA_FLAGS -u TRITON_PTXAS_PATH "$spillway" run --softgpu sh -c "$frameworks"
says "$out" "^1 $tree/softgpu/cuda/bin/ptxas --xla_gpu_cuda_data_dir=$tree/softgpu/cuda --xla_gpu_autotune_level=0 .*=false$"
says_not "$err" .
expect 0 env SPILLWAY_LOG=debug TRITON_PTXAS_PATH=/mine XLA_FLAGS='--xla_gpu_autotune_level=4 --xla_gpu_cuda_data_dir_too' \
	"$spillway" run --softgpu sh -c "$frameworks"
says "$out" "^1 /mine --xla_gpu_autotune_level=4 --xla_gpu_cuda_data_dir_too --xla_gpu_cuda_data_dir=$tree/softgpu/cuda --xla_gpu_gemm[^ ]* [^ ]*=false$"
says "$err" 'debug: --softgpu sets JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1$'
says_not "$err" 'sets TRITON_PTXAS_PATH='
says_not "$err" 'sets SOFTGPU_HOST_BANDWIDTH=' # tests have set it
expect 0 env -u SOFTGPU_HOST_BANDWIDTH "$spillway" run --softgpu sh -c 'echo "link: $SOFTGPU_HOST_BANDWIDTH"'
says "$out" '^link: 421M$'
# shellcheck disable=SC2016
inductor='echo "inductor: $TORCHINDUCTOR_NATIVE_MATMUL $TORCHINDUCTOR_SHAPE_PADDING $TORCHINDUCTOR_COMPILE_THREADS"'
expect 0 env SPILLWAY_LOG=debug TORCHINDUCTOR_SHAPE_PADDING=1 "$spillway" run --softgpu sh -c "$inductor"
says "$out" '^inductor: 1 1 1$'
says "$err" 'debug: --softgpu sets TORCHINDUCTOR_NATIVE_MATMUL=1$'
says_not "$err" 'sets TORCHINDUCTOR_SHAPE_PADDING='
expect 0 env XLA_FLAGS=/a/file JAX_SKIP_CUDA_CONSTRAINTS_CHECK= "$spillway" run --softgpu sh -c "$frameworks"
says "$out" "^ $tree/softgpu/cuda/bin/ptxas /a/file$"
expect 0 env -u XLA_FLAGS "$spillway" run sh -c 'echo "flags: $XLA_FLAGS"'
says "$out" '^flags: $'

# A program that is installed with the software GPU, unless PATH has one of its name.
mkdir -p "$tree/clients" "$TMPDIR/path"
printf '#!/bin/sh\necho installed "$@"\n' >"$tree/clients/trains"
printf '#!/bin/sh\necho on PATH\n' >"$TMPDIR/path/trains"
chmod 755 "$tree/clients/trains" "$TMPDIR/path/trains"
expect 0 "$spillway" run --softgpu trains --scale 4
says "$out" '^installed --scale 4$'
expect 0 "$spillway" run --softgpu timeout 60 trains --scale 4 # behind another program, too
says "$out" '^installed --scale 4$'
expect 0 env -u PATH "$spillway" run --softgpu trains
says "$out" '^installed$'
expect 127 "$spillway" run trains
says "$err" "^spillway: trains: not found in any folder of PATH; it runs on the software GPU, by 'spillway run --softgpu'$"
expect 127 "$spillway" run timeout 60 trains
expect 0 env PATH="$TMPDIR/path:$PATH" "$spillway" run --softgpu trains
says "$out" '^on PATH$'

# The job's name.
# shellcheck disable=SC2016
expect 0 "$spillway" run sh -c 'echo "$SPILLWAY_JOB"'
says "$out" '^sh-[0-9]+$'
ln -sf /bin/sh "$TMPDIR/python3"
# shellcheck disable=SC2016
echo 'echo "$SPILLWAY_JOB"' >"$TMPDIR/my train.py"
expect 0 "$spillway" run "$TMPDIR/python3" "$TMPDIR/my train.py"
says "$out" '^my-train-[0-9]+$'
# shellcheck disable=SC2016
expect 0 env SLURM_JOB_ID=42 "$spillway" run sh -c 'echo "$SPILLWAY_JOB"'
says "$out" '^slurm-42$'
# shellcheck disable=SC2016
expect 0 env KUBERNETES_SERVICE_HOST=10.0.0.1 HOSTNAME=bert-0 "$spillway" run sh -c 'echo "$SPILLWAY_JOB"'
says "$out" '^pod-bert-0$'
long=a123456789b123456789c123456789d123456789e123456789f1234567-0
# shellcheck disable=SC2016
expect 0 env KUBERNETES_SERVICE_HOST=10.0.0.1 HOSTNAME=$long "$spillway" run sh -c 'echo "$SPILLWAY_JOB"'
says "$out" '^pod-.*f1234567-0$'
# shellcheck disable=SC2016
expect 0 env SLURM_JOB_ID=42 KUBERNETES_SERVICE_HOST=10.0.0.1 HOSTNAME=x "$spillway" run sh -c 'echo "$SPILLWAY_JOB"'
says "$out" '^slurm-42$'
# shellcheck disable=SC2016
expect 0 env HOSTNAME=bert-0 "$spillway" run sh -c 'echo "$SPILLWAY_JOB"'
says "$out" '^sh-[0-9]+$'
expect 125 env SLURM_JOB_ID=a/b "$spillway" run true
says "$err" "^spillway: SLURM_JOB_ID='a/b': cannot be in a job's name; use --name$"
printf '[job]\nname = by-file\n' >"$TMPDIR/named.ini"
# shellcheck disable=SC2016
(cd "$TMPDIR" && "$spillway" run --config named.ini sh -c 'echo "$SPILLWAY_JOB $SPILLWAY_CONFIG"') >"$out"
says "$out" '^by-file /.*/named.ini$'

# The flags become the job's override; what an earlier run set is no part of the next.
override=$SPILLWAY_STATE_DIR/again.override.ini
expect 0 "$spillway" run --name again --memory 8MiB --share 50 --limit-gpu 0 cat "$override"
says "$out" '^\[gpu 0\]$'
says "$out" '^memory = 8MiB$'
says "$out" '^share = 50$'
expect 0 "$spillway" run --name again --host-memory 1G cat "$override"
says "$out" '^host_memory = 1G$'
says_not "$out" '^memory|share'
expect 1 "$spillway" run --name again cat "$override"

# A name in use is refused, before the job's first CUDA call and after.
"$spillway" run --name busy --memory 1G sh -c 'echo started; exec sleep 1000' >"$TMPDIR/busy.log" 2>&1 &
launcher=$!
wait_for started "$TMPDIR/busy.log"
expect 125 "$spillway" run --name busy true
says "$err" "^spillway: job 'busy' is being run"
expect 0 "$spillway" run --name busy --join --share 40 cat "$SPILLWAY_STATE_DIR/busy.override.ini"
says "$out" 'memory = 1G'
says "$out" 'share = 40'
kill "$launcher"
wait "$launcher"
[ $? -eq 143 ] || fail 'a launcher sent SIGTERM: expected 143'
[ ! -e "$SPILLWAY_STATE_DIR/busy.launch" ] || fail 'the claim of an ended launcher is still there'
expect 0 "$spillway" run --name busy true
start_job live
expect 125 "$spillway" run --name live true
says "$err" "^spillway: job 'live' is running \(process $pid,"
expect 0 "$spillway" run --name live --join true
kill "$pid"
wait "$pid"

# The tasks of a Slurm job are one job; one with other limits is refused.
SLURM_JOB_ID=7
export SLURM_JOB_ID
"$spillway" run --memory 1G --limit-gpu 0 sh -c 'echo started; exec sleep 1000' >"$TMPDIR/task.log" 2>&1 &
launcher=$!
wait_for started "$TMPDIR/task.log"
expect 0 "$spillway" run true
expect 0 "$spillway" run --memory 1G --limit-gpu 0 true
for limit in '--memory 2G --limit-gpu 0' '--memory 1G' '--share 5 --limit-gpu 0'; do
	# shellcheck disable=SC2086 # options
	expect 125 "$spillway" run $limit true
	says "$err" "^spillway: job 'slurm-7' is running with other limits; use --join"
done
says_not "$SPILLWAY_STATE_DIR/slurm-7.override.ini" 2G
expect 0 "$spillway" run --join --share 5 true
says "$SPILLWAY_STATE_DIR/slurm-7.override.ini" '^share = 5$'
kill "$launcher"
wait "$launcher"
unset SLURM_JOB_ID

# Frameworks that would take all memory are told not to, unless the user said otherwise.
# shellcheck disable=SC2016
frameworks='echo "$TF_FORCE_GPU_ALLOW_GROWTH,$XLA_PYTHON_CLIENT_PREALLOCATE,"'
expect 0 "$spillway" run sh -c "$frameworks"
says "$out" '^true,false,$'
expect 0 env TF_FORCE_GPU_ALLOW_GROWTH=false XLA_PYTHON_CLIENT_PREALLOCATE=true "$spillway" run sh -c "$frameworks"
says "$out" '^false,true,$'
for fraction in XLA_CLIENT_MEM_FRACTION XLA_PYTHON_CLIENT_MEM_FRACTION; do
	expect 0 env $fraction=.5 "$spillway" run sh -c "$frameworks"
	says "$out" '^true,,$'
done
expect 0 env SPILLWAY_DISABLE=1 "$spillway" run sh -c "$frameworks"
says "$out" '^,,$'

# Signals sent to the launcher reach the program; its answer is the exit status.
"$spillway" run sh -c 'trap "exit 9" USR1; echo started; while :; do sleep 0.05; done' >"$TMPDIR/usr1.log" 2>&1 &
launcher=$!
wait_for started "$TMPDIR/usr1.log"
kill -USR1 "$launcher"
wait "$launcher"
[ $? -eq 9 ] || fail 'SIGUSR1 was not sent on'

# With SIGKILL the program ends, too: the launcher cannot send that on.
# shellcheck disable=SC2016 # for the inner shell
"$spillway" run sh -c 'echo "started $$"; exec sleep 200' >"$TMPDIR/kill.log" 2>&1 &
launcher=$!
wait_for started "$TMPDIR/kill.log"
program=$(sed 's/^started //' "$TMPDIR/kill.log")
kill -9 "$launcher"
wait "$launcher" 2>/dev/null
tries=0
while grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$program/status"; do
	tries=$((tries + 1))
	[ $tries -le 1200 ] || fail 'a program lives on without its launcher'
	[ $tries -le 1200 ] || break
	sleep 0.05
done

# A bad first configuration: 78, with file, line, value and what was expected.
printf '[gpu]\nshare = 200\n' >"$TMPDIR/bad.ini"
expect 78 "$spillway" run --config "$TMPDIR/bad.ini" touch "$TMPDIR/ran"
says "$err" '^spillway: .*/bad\.ini:2: .*200.*expected'
[ ! -e "$TMPDIR/ran" ] || fail 'the program ran in spite of a bad configuration'
expect 78 env SPILLWAY_CONFIG="$TMPDIR/bad.ini" "$spillway" run true
expect 78 "$spillway" run --config "$TMPDIR/missing.ini" true
says "$err" '^spillway: --config .*/missing\.ini: No such file or directory$'
expect 78 "$spillway" run --config . true
says "$err" '^spillway: --config \.: Is a directory$'
expect 0 env SPILLWAY_CONFIG= "$spillway" run true
expect 78 env SPILLWAY_MEMORY=lots "$spillway" run true
says "$err" '^spillway: SPILLWAY_MEMORY.*lots.*expected'
expect 0 env SPILLWAY_MEMORY_LIMT=32MiB "$spillway" run --memory-max 1G true
says "$err" '^spillway: SPILLWAY_MEMORY_LIMT: unknown environment variable; did you mean SPILLWAY_MEMORY\?$'
says_not "$err" 'memory-max'

# Without room for its state a job would have no common limit.
expect 125 sh -c 'ulimit -f 1; exec "$@"' sh "$spillway" run touch "$TMPDIR/ran"
says "$err" '^spillway: .*files are limited to [0-9]+ bytes'
mkdir "$TMPDIR/full"
# shellcheck disable=SC2016 # for the inner shell
if unshare -rm sh -c 'mount -t tmpfs -o size=64k none "$0"' "$TMPDIR/full" 2>/dev/null; then
	# shellcheck disable=SC2016 # for the inner shell
	expect 125 unshare -rm sh -c 'mount -t tmpfs -o size=64k,mode=700 none "$0" && SPILLWAY_STATE_DIR=$0 && \
		export SPILLWAY_STATE_DIR && exec "$@"' "$TMPDIR/full" "$spillway" run touch "$TMPDIR/ran"
	says "$err" '^spillway: .*/full: .*: No space left on device$'
fi
[ ! -e "$TMPDIR/ran" ] || fail 'the program ran without room for its state'
expect 125 env SPILLWAY_STATE_DIR=relative "$spillway" run true
says "$err" '^spillway: SPILLWAY_STATE_DIR=relative'

# The summary: when something spilled, moved or waited, and of a job that was named whenever it used
# CUDA.
expect 0 env SPILLWAY_SHARE=60 "$spillway" run --name sum "$fake_job" -1 -m 12582912 -s 8388608 -i 113000000 -c steps=225 -c step_ns=1800000
says "$err" '^spillway: sum: GPU at most 12\.0 MiB( \(limit [^)]*\))?, host at most 8\.00 MiB; launches waited 113 ms to keep to the share of 60 %; 225 steps of 1\.80 ms$'
expect 0 env SPILLWAY_SHARE=0 "$spillway" run --name sum "$fake_job" -1 -m 4096 -i 113000000
says "$err" '^spillway: sum: GPU at most 4\.00 KiB; launches waited 113 ms, paused at the end$'
expect 0 "$spillway" run --name sum "$fake_job" -1 -m 4096 -i 7000 -c steps=1 -c refusals=2
says "$err" '^spillway: sum: GPU at most 4\.00 KiB; 2 allocations were refused; launches waited 7\.00 us; 1 step$'
expect 0 "$spillway" run --name sum "$fake_job" -1 -c demoted_bytes=4096 -c promoted_bytes=2048 -c steps=17
says "$err" '^spillway: sum: .*; 6\.00 KiB moved between them; 17 steps$'
# The peak stands beside the highest limit of the run, and the last one where that is lower.
: >"$TMPDIR/late.log"
"$spillway" run --name late --memory 64MiB "$fake_job" -m 62914560 >"$TMPDIR/late.log" 2>&1 &
launcher=$!
wait_for ready "$TMPDIR/late.log"
expect 0 "$spillway" set late --memory 80MiB
expect 0 "$spillway" set late --memory 24MiB
kill "$launcher"
wait "$launcher"
says "$TMPDIR/late.log" '^spillway: late: GPU at most 60\.0 MiB \(limit 80\.0 MiB, 24\.0 MiB at the end\)$'
expect 0 "$spillway" stat late
says "$out" '^gpu 0: the highest limit of this run was 80\.0 MiB$'
expect 0 "$spillway" run --name late --memory 16MiB "$fake_job" -1 -m 4096
says "$err" '^spillway: late: GPU at most 4\.00 KiB \(limit 16\.0 MiB\)$'
expect 0 "$spillway" stat late
says_not "$out" 'highest limit'
# A limit of 0, and one that limits nothing.
expect 0 "$spillway" run --name sum --memory 0 "$fake_job" -1 -s 8388608
says "$err" '^spillway: sum: GPU at most 0 B \(limit 0 B\), host at most 8\.00 MiB$'
expect 0 "$spillway" run --name sum --memory 2GiB "$fake_job" -1 -m 4096 -c limit_set=2147483648
says "$err" "^spillway: --memory '2GiB': nothing is limited by it: gpu 0 has 1\.00 GiB$"
# For programs: exact figures, and of any job.
expect 0 "$spillway" run --summary=json --name sum "$fake_job" -1 -m 12582912 -s 8388608 -i 7000
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit((d["job"], d["device_peak"], d["spilled_bytes"], d["idle_ns"]) != ("sum", 12582912, 8388608, 7000))' \
	"$err" || fail 'the summary for programs'
expect 0 "$spillway" run --summary json "$fake_job" -1 -m 4096
says "$err" '^\{"schema":1,"job":"fake_job-[0-9]+","device_peak":4096,.*"steps":0,"driver_peak":0,"refused":null\}$'
expect 0 "$spillway" run --quiet --summary json "$fake_job" -1 -m 4096
says_not "$err" .
expect 125 "$spillway" run --summary xml true
says "$err" "^spillway: --summary 'xml': expected text or json$"
expect 0 "$spillway" run --name sum true
says_not "$err" .
# A GPU that is not there is said: while the program runs, and of one that ends soon at its end.
expect 0 "$spillway" run --quiet --name absent --memory 1G --limit-gpu 9 "$fake_job" -1
says "$err" "^spillway: --limit-gpu '9': job 'absent' has no such GPU, nothing is limited by it; it has 0 \(GPU-0.*, 0000:01:00.0\)$"
[ "$(grep -c . "$err")" -eq 1 ] || fail "absent: more than one line"
expect 0 "$spillway" run --quiet --name absent --memory 1G --limit-gpu GPU-0000 "$fake_job" -1
says_not "$err" .
expect 0 "$spillway" run --quiet --name absent --memory 1G --limit-gpu 9 true
says_not "$err" .
"$spillway" run --name absent --memory 1G --limit-gpu 9 "$fake_job" >"$TMPDIR/absent.log" 2>&1 &
pid=$!
wait_for "has no such GPU" "$TMPDIR/absent.log"
kill $pid
wait $pid
[ "$(grep -c 'no such GPU' "$TMPDIR/absent.log")" -eq 1 ] || fail "absent: not said once"

expect 0 "$spillway" run --quiet "$fake_job" -1 -s 8388608
says_not "$err" .
expect 0 "$spillway" run "$fake_job" -1 -m 4096
says_not "$err" .
expect 0 "$spillway" run --name sum "$fake_job" -1 -m 4096
says "$err" '^spillway: sum: GPU at most 4\.00 KiB$'
expect 0 env SPILLWAY_JOB=sum "$spillway" run "$fake_job" -1 -m 4096
says "$err" '^spillway: sum: GPU at most 4\.00 KiB$'
expect 0 "$spillway" run --quiet --name sum "$fake_job" -1 -m 4096
says_not "$err" .

# What another version left is named, and how to be rid of it.
echo 'another version' >"$SPILLWAY_STATE_DIR/old.segment"
expect 125 "$spillway" run --name old true
says "$err" 'remove .*/old\.segment if no process uses it$'
rm "$SPILLWAY_STATE_DIR/old.segment"

# An environment that disables Spillway is not passed over in silence.
expect 0 env SPILLWAY_DISABLE=1 "$spillway" run true
says "$err" '^spillway: the environment disables Spillway'

# Of ended jobs the last are remembered.
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34; do
	SPILLWAY_JOB=ended-$i "$fake_job" -1 >/dev/null
done
expect 0 "$spillway" run true
expect 0 "$spillway" stat --all
says "$out" '^ended-34 '
says_not "$out" '^ended-1 '
[ "$(grep -c ' ended ' "$out")" -eq 32 ] || fail 'expected 32 ended jobs'

# Nor is a machine without a driver; the program runs.
# shellcheck disable=SC2016 # for the inner shell
bare() { env -u SPILLWAY_DRIVER -u LD_LIBRARY_PATH unshare -rm sh -c 'for file in $(ldconfig -p | sed -n "s/.*libcuda.so.1 .*=> //p"); do
	mount --bind /dev/null "$file"; done; exec "$@"' sh "$@"; }
if unshare -rm true 2>/dev/null; then
	expect 0 bare "$spillway" run echo ran
	says "$out" '^ran$'
	says "$err" '^spillway: no CUDA driver is found here, so that there is no GPU to limit'
	[ "$(grep -c . "$err")" -eq 1 ] || fail 'no driver: not said in one line'
fi

# Nor is a program that the shim cannot be put into.
echo 'void _start(void) { __builtin_trap(); }' | ${CC:-cc} -nostdlib -static -x c -o "$TMPDIR/static" -
"$spillway" run "$TMPDIR/static" 2>"$err" # it ends by a signal of its own
says "$err" '^spillway: .*/static is statically linked.*; no limit will hold for it$'

# Where the tool is broken it says so.
rm "$tree/lib/libspillway-alias.so"
expect 125 "$spillway" run true
says "$err" '^spillway: libspillway.so and libspillway-alias.so are neither'
finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# conf/: the reader of each example takes it, and each name in it is one of Spillway's.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

# Each file has its line in conf/README.md, or its folder has, and each line its file or folder.
git ls-files conf >"$TMPDIR/files" 2>/dev/null
[ -s "$TMPDIR/files" ] || find conf -type f >"$TMPDIR/files"
while read -r file; do
	name=${file#conf/}
	[ "$name" = README.md ] || grep -q -e "^| \`$name\` |" -e "^| \`${name%%/*}/\` |" conf/README.md ||
		fail "$file is not in conf/README.md"
done <"$TMPDIR/files"
sed -n 's/^| `\([^`]*\)`.*/\1/p' conf/README.md >"$TMPDIR/named"
[ "$(wc -l <"$TMPDIR/named")" -ge 7 ] || fail 'conf/README.md names too few files'
while read -r file; do
	[ -e "conf/$file" ] || fail "conf/README.md names $file, which is not there"
done <"$TMPDIR/named"

# The configuration of Spillway itself, with every setting in use.
sed 's/^;//; /^\[ceiling\]/,$d' conf/spillway.ini >"$TMPDIR/all.ini"
expect 0 "$spillway" run --config "$TMPDIR/all.ini" true
expect 0 "$spillway" run --config conf/spillway.ini true

# YAML: read by PyYAML where it is there, else by its outline.
python3 - conf/prometheus/scrape.yml conf/kubernetes/pod.yaml "$TMPDIR" >"$out" 2>"$err" <<'END' || fail 'YAML'
import json, re, sys
scrape, pod, folder = sys.argv[1:]
for name in scrape, pod:
    for number, line in enumerate(open(name), 1):
        at = '%s:%d' % (name, number)
        assert line.isascii() and '\t' not in line and line == line.rstrip() + '\n', at
        indent = len(line) - len(line.lstrip())
        assert indent % 2 == 0, at
        if not line.strip() or line.lstrip().startswith('#') or line == '---\n':
            continue
        assert re.match(r' *(- )*([\w./-]+:( .*)?|[\w.:-]+)$', line) or ' = ' in line or '[gpu]' in line, at
command = re.search(r'command: (\[.*\])', open(pod).read()).group(1)
open(folder + '/command', 'w').write('\n'.join(json.loads(command)) + '\n')
block = re.search(r'  spillway.ini: \|\n((?:    .*\n)+)', open(pod).read()).group(1)
open(folder + '/pod.ini', 'w').write(re.sub('(?m)^    ', '', block))
try:
    import yaml
except ImportError:
    sys.exit()
targets = yaml.safe_load(open(scrape))['scrape_configs'][0]['static_configs'][0]['targets']
assert targets == ['127.0.0.1:9435'], targets
config, pod = yaml.safe_load_all(open(pod))
assert config['data']['spillway.ini'] == open(folder + '/pod.ini').read()
spec = pod['spec']
container = spec['containers'][0]
assert container['command'] == json.loads(command)
assert {m['name'] for m in container['volumeMounts']} == {v['name'] for v in spec['volumes']}
assert spec['volumes'][1]['configMap']['name'] == config['metadata']['name']
END
says "$TMPDIR/pod.ini" '^memory = 20GiB$'
says "$TMPDIR/command" '^/opt/spillway/bin/spillway$'
set --
while read -r word; do
	case $word in
	/opt/spillway/bin/spillway) word=$spillway ;;
	/etc/job/spillway.ini) word=$TMPDIR/pod.ini ;;
	python) word=true ;;
	esac
	set -- "$@" "$word"
done <"$TMPDIR/command"
expect 0 env SPILLWAY_DRIVER="$build/tests/e2e/empty.so" POD_NAME=bert POD_NAMESPACE=default "$@"
says_not "$err" .

# Units: systemd's own judgement where it is there; each command line is one that the tool takes.
for unit in conf/systemd/*.service; do
	command=$(sed -n 's,^ExecStart=/usr/local/bin/spillway ,,p' "$unit")
	[ -n "$command" ] || fail "$unit does not start the tool"
	command=$(echo "$command" | sed "s,/var/lib/prometheus/node-exporter,$TMPDIR,; s/\${LISTEN}/127.0.0.1:0/")
	lasts=124 seconds=5 # it goes on until it is stopped
	! grep -q '^Type=oneshot$' "$unit" || lasts=0 seconds=200
	# shellcheck disable=SC2086 # options
	SPILLWAY_DRIVER=$build/softgpu/libcuda.so.1 SOFTGPU_STATE_DIR=$TMPDIR timeout $seconds "$spillway" $command >"$out" 2>"$err"
	[ $? -eq $lasts ] || fail "$unit: not so: spillway $command"
	if command -v systemd-analyze >/dev/null; then
		name=$(basename "$unit" .service)
		sed "s,/usr/local/bin/spillway,$spillway," "$unit" >"$TMPDIR/$name.service"
		# what it says of other units of this machine is not ours
		systemd-analyze verify --man=no "$TMPDIR/$name.service" 2>&1 | grep "$name" >"$err"
		says_not "$err" .
		# they are root's: hardened as far as that goes; older ones cannot judge a file
		systemd-analyze security --offline=yes --threshold=35 "$TMPDIR/$name.service" >"$out" 2>"$err" ||
			grep -q 'offline' "$err" || fail "$unit: exposed: $(tail -n 1 "$out")"
	fi
done
says "$TMPDIR/spillway.prom" '^spillway_unreadable_jobs 0$'
says conf/systemd/spillway-metrics.service '^Environment=LISTEN=127\.0\.0\.1:9435$'
says conf/systemd/logind-spillway.conf '^\[Login\]$'

# Slurm: the node's driver is probed, once, and only for a job with a GPU; it never fails.
sed "s,/usr/local/bin/spillway,$spillway," conf/slurm/prolog >"$TMPDIR/node-prolog"
node_prolog() {
	expect 0 env SPILLWAY_DRIVER="$1" SPILLWAY_STATE_DIR="$TMPDIR/probing" SPILLWAY_NODE_DIR=/dev/null/none SOFTGPU_STATE_DIR="$TMPDIR" \
		SLURM_JOB_GPUS="$2" sh "$TMPDIR/node-prolog"
	says_not "$out" .
}
node_prolog "$build/softgpu/libcuda.so.1" ''
[ ! -e "$TMPDIR/probing" ] || fail 'a job without a GPU probes the driver'
node_prolog "$build/tests/e2e/crashing_driver.so" 0
node_prolog "$build/softgpu/libcuda.so.1" 0
says "$TMPDIR/probing/driver-probe" ' mixed 0 unmap 0$'

# Slurm: what the task gets, and what it does not.
sed "s,^shim=.*,shim=$tree/lib," conf/slurm/task-prolog >"$TMPDIR/prolog"
prolog() { env -u LD_PRELOAD SLURM_JOB_ID=7 "$@" sh "$TMPDIR/prolog"; }
expect 0 prolog CUDA_VISIBLE_DEVICES=0 LD_PRELOAD=
says "$out" "^export LD_PRELOAD=$tree/lib/libspillway.so:$tree/lib/libspillway-alias.so$"
says "$out" '^export SPILLWAY_JOB=slurm-7$'
says "$out" '^export SPILLWAY_LABELS=SLURM_JOB_ID=7$'
sed 's/^export //' "$out" >"$TMPDIR/task"
# shellcheck disable=SC2016,SC2046 # for the inner shell; one word per line
expect 0 env $(cat "$TMPDIR/task") CUDA_VISIBLE_DEVICES=0 "$fake_job" -1
[ -e "$SPILLWAY_STATE_DIR/slurm-7.segment" ] || fail 'a task is not in the job slurm-7'
expect 0 "$spillway" stat --all
says "$out" '^slurm-7 .* SLURM_JOB_ID=7$'
expect 0 prolog CUDA_VISIBLE_DEVICES=0 LD_PRELOAD=/lib/other.so SPILLWAY_JOB=mine SPILLWAY_LABELS=a=b
says "$out" "^export LD_PRELOAD=/lib/other.so:$tree/lib/libspillway.so:"
says_not "$out" "SPILLWAY_JOB|SPILLWAY_LABELS"
expect 0 prolog CUDA_VISIBLE_DEVICES=0 LD_PRELOAD=/mine/libspillway.so
says_not "$out" LD_PRELOAD
expect 0 prolog CUDA_VISIBLE_DEVICES=
says_not "$out" .
rm "$tree/lib/libspillway-alias.so"
expect 0 prolog CUDA_VISIBLE_DEVICES=0
says_not "$out" .
finish

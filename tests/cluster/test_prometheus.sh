#!/bin/sh
# SPDX-License-Identifier: MIT
# A real Prometheus scrapes jobs of two users on the software GPU. No query of the board comes back
# empty, and each of its variables selects. The alerts are right and name metrics that there are.
set -eu
# shellcheck source=tests/cluster/node.sh
. tests/cluster/node.sh
command -v prometheus >/dev/null || fail "no prometheus here: tools/dev/deps cluster installs it"
promtool check rules conf/prometheus/alerts.yml >"$scratch/out" 2>&1 || fail "alerts: $(cat "$scratch/out")"
promtool test rules conf/prometheus/alerts_test.yml >"$scratch/out" 2>&1 || fail "alerts: $(cat "$scratch/out")"
[ "$(id -u)" -eq 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null || {
	echo "needs root, for jobs of two users"
	exit 77
}

preloaded yes
configured '[gpu]' 'memory = 24MiB' 'host_memory = 64MiB' 'share = 90'
install -d -m 1777 /run/spillway "$node/ready"

job_of() { # job_of USER NAME: holds 32 MiB until the end, 8 of them on the host
	install -d -m 700 -o "$1" "$node/gpu-$2"
	setpriv --reuid "$1" --regid "$1" --clear-groups env SOFTGPU_STATE_DIR="$node/gpu-$2" SPILLWAY_JOB="$2" SPILLWAY_LABELS=team=vision,pod-name=p \
		"$node/bin/allocate" --mib 8 --count 4 --hold-ms 600000 --ready "$node/ready/$2" >"$scratch/$2.out" 2>&1 &
	until_true $patience test -e "$node/ready/$2" || fail "$2: not ready: $(cat "$scratch/$2.out")"
}
job_of 0 ours
job_of 65534 theirs
# A training that is paced and spills, and a program that is refused memory.
cp "$build/clients/train_mlp" "$build/clients/train_kernels.ptx" "$build/clients/digits.csv" "$node/bin"
env SOFTGPU_STATE_DIR="$node/gpu-ours" SPILLWAY_JOB=trains "$node/bin/train_mlp" --scale 2 --epochs 1000000 --quiet >"$scratch/trains.out" 2>&1 &
env SOFTGPU_STATE_DIR="$node/gpu-ours" SPILLWAY_JOB=refused "$node/bin/allocate" --mib 16 --count 8 --hold-ms 600000 --ready "$node/ready/refused" >"$scratch/refused.out" 2>&1 &
until_true $patience test -e "$node/ready/refused" || fail "refused: not ready: $(cat "$scratch/refused.out")"
has_page() { ls /run/spillway/job-65534-theirs-*.page; }
until_true $patience has_page || fail "no page of the other user's job"

: >/etc/ld.so.preload
# What is no job's: a program without Spillway, on the GPU that the exporter sees.
SOFTGPU_STATE_DIR="$node/gpu-ours" "$node/bin/allocate" --mib 64 --count 1 --hold-ms 600000 --ready "$node/ready/none" >"$scratch/none.out" 2>&1 &
until_true $patience test -e "$node/ready/none" || fail "no job: not ready: $(cat "$scratch/none.out")"
# As conf/systemd/spillway-metrics.service runs it, with the shim in it, as on the whole machine.
preloaded yes
capabilities=$(sed -n 's/^CapabilityBoundingSet=//p' conf/systemd/spillway-metrics.service | sed 's/CAP_//g; s/ /,+/g' | tr '[:upper:]' '[:lower:]')
SOFTGPU_STATE_DIR="$node/gpu-ours" setpriv --no-new-privs --bounding-set "-all,+$capabilities" \
	"$spillway" stat --listen 127.0.0.1:0 >"$scratch/exporter" 2>&1 &
until_true $patience grep -q 'metrics$' "$scratch/exporter" || fail "exporter: $(cat "$scratch/exporter")"
target=$(sed -n 's,.*http://\([^/]*\)/metrics$,\1,p' "$scratch/exporter")
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
sed "s/127.0.0.1:9435/$target/; s/scrape_interval: .*/scrape_interval: 1s/" conf/prometheus/scrape.yml >"$scratch/prometheus.yml"
printf 'global: {evaluation_interval: 1s}\nrule_files: ["%s"]\n' "$PWD/conf/prometheus/alerts.yml" >>"$scratch/prometheus.yml"
prometheus --config.file="$scratch/prometheus.yml" --storage.tsdb.path="$scratch/tsdb" \
	--web.listen-address="127.0.0.1:$port" >"$scratch/prometheus.log" 2>&1 &
python3 - "$port" >"$scratch/out" 2>&1 <<'END' || fail "$(cat "$scratch/out" "$scratch/prometheus.log" | tail -n 30)"
import json, re, sys, time, urllib.parse, urllib.request

def ask(query):
    url = "http://127.0.0.1:%s/api/v1/query?%s" % (sys.argv[1], urllib.parse.urlencode({"query": query}))
    try:
        return json.load(urllib.request.urlopen(url, timeout=150))["data"]["result"]
    except OSError as error:
        return print(query, error)

def wait_for(query, enough):
    for _ in range(600):
        result = ask(query)
        if result and enough(result):
            return result
        time.sleep(0.2)
    raise SystemExit("empty, or not enough: %s: %s" % (query, result))

# Both users' jobs, each with what it holds and its labels.
info = wait_for('spillway_job_info{state="running",spillway_job=~"ours|theirs"}', lambda result: len(result) == 2)
assert sorted((r["metric"]["spillway_job"], r["metric"]["label_team"], r["metric"]["label_pod_name"]) for r in info) == [
    ("ours", "vision", "p"), ("theirs", "vision", "p")], info
assert len({r["metric"]["user"] for r in info}) == 2, info
spilled = wait_for('spillway_spilled_bytes_total{spillway_job=~"ours|theirs"} > 0', lambda result: len(result) == 2)
assert [r["value"][1] for r in spilled] == [str(8 << 20)] * 2, spilled
others = wait_for("spillway_gpu_others_bytes > 0", len)
assert len(others) == 1 and (32 << 20) <= int(others[0]["value"][1]) < (200 << 20), others
assert int(wait_for("spillway_gpu_jobs_bytes", len)[0]["value"][1]) >= 48 << 20
limits = wait_for('spillway_host_limit_bytes{spillway_job=~"ours|theirs"}', lambda result: len(result) == 2)
assert [r["value"][1] for r in limits] == [str(64 << 20)] * 2, limits
held = wait_for('spillway_device_charged_bytes{spillway_job=~"ours|theirs"} > 0', lambda result: len(result) == 2)
assert [r["value"][1] for r in held] == [str(24 << 20)] * 2, held
# The board: the last schema of Grafana's classic model, a description and a legend on each panel.
board = json.load(open("conf/grafana/spillway.json"))
panels = [p for p in board["panels"] if p["type"] != "row"]
assert board["schemaVersion"] == 42 and len({p["id"] for p in board["panels"]}) == len(board["panels"])
assert all(p["description"] and all(t["legendFormat"] for t in p["targets"]) for p in panels)
queries = [t["expr"] for p in panels for t in p["targets"]]
assert len(queries) > 30
# Panels of shares held beside set, steps, refusals, GPU seconds by user, why memory is on the host.
for words in (("spillway_share_held_ratio", "spillway_share_set_ratio"), ("spillway_steps_total",), ("spillway_refusals_total",),
              ("sum by (user)", "spillway_busy_seconds_total", "$__range"), ("spillway_spill_reason", "spillway_host_charged_bytes")):
    assert any(all(word in " ".join(t["expr"] for t in p["targets"]) for word in words) for p in panels), words

def filled(query, **chosen):
    chosen = {"node": ".+", "user": ".+", "job": ".+", "__rate_interval": "1m", "__range": "1h", **chosen}
    return re.sub(r"\$(\w+)", lambda name: chosen[name[1]], query)

for query in queries:
    wait_for(filled(query), len)
    for name in "node", "user", "job":
        if "$" + name in query:
            assert not any(float(r["value"][1]) for r in ask(filled(query, **{name: "none"}))), (name, query)
    assert "$node" in query, query
# Each variable has values, and one value selects.
chosen = {v["name"]: re.fullmatch(r"label_values\((.*), (\w+)\)", v["query"]["query"]).groups() for v in board["templating"]["list"] if v["type"] == "query"}
assert list(chosen) == ["node", "user", "job"], chosen
for series, label in chosen.values():
    assert all(label in r["metric"] for r in wait_for(filled(series), len)), series
for query in queries:
    if "$job" in query:
        assert {r["metric"].get("spillway_job", "trains") for r in ask(filled(query, job="trains"))} <= {"trains"}, query
why = ask(filled(next(p for p in panels if p["title"] == "Why memory is on the host")["targets"][0]["expr"]))
assert {("ours", "limit"), ("theirs", "limit")} <= {(r["metric"]["spillway_job"], r["metric"]["reason"]) for r in why}, why
# Prometheus evaluates every alert without a fault, and what it compares is there.
def rules():
    url = "http://127.0.0.1:%s/api/v1/rules" % sys.argv[1]
    return [r for g in json.load(urllib.request.urlopen(url, timeout=150))["data"]["groups"] for r in g["rules"]]
for _ in range(600):
    if all(r["health"] == "ok" for r in rules()):
        break
    time.sleep(0.2)
assert all(r["labels"]["severity"] in ("warning", "critical") and r["annotations"]["runbook"] for r in rules())
assert len(rules()) > 6 and all(r["health"] == "ok" for r in rules()), rules()
for rule in rules():
    for side in re.split(r" (?:>|==) ", rule["query"]):
        wait_for(side, len)
assert ask("up")[0]["value"][1] == "1"
END

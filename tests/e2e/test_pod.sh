#!/bin/sh
# SPDX-License-Identifier: MIT
# A process in a pod, with the mounts of a kubelet: its job's labels are the pod's names, as
# dcgm-exporter has them, in stat and in metrics. A downward file of the pod's annotation that is
# resized changes the limit of the job that runs, as `set` does.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
mib=1048576
uid=6e7e2c9a-1111-4222-8333-00000000abcd

# The annotation, as the kubelet writes it: a link to a folder that is swapped.
podinfo=$scratch/podinfo
annotation() { # annotation FOLDER MEMORY
	mkdir -p "$podinfo/..$1"
	sed -n '/spillway.dev\/config: |/,/^spec:/s/^      //p' conf/kubernetes/pod-resized.yaml | sed "s/20GiB/$2/" >"$podinfo/..$1/spillway.ini"
	grep -q "^memory = $2\$" "$podinfo/..$1/spillway.ini" || fail "conf/kubernetes/pod-resized.yaml has no annotation"
	ln -s "..$1" "$podinfo/..data_tmp"
	mv -T "$podinfo/..data_tmp" "$podinfo/..data"
}
annotation one 64MiB
ln -s ..data/spillway.ini "$podinfo/spillway.ini"

kubelet=$scratch/kubelet/pods/$uid/containers/train
mkdir -p "$kubelet"
: >"$kubelet/1f2e3d4c"
: >"$scratch/termination-log"
map=
[ "$(id -u)" -eq 0 ] || map="--user --map-root-user"
# shellcheck disable=SC2086 # options
unshare $map --mount true 2>/dev/null || {
	echo "no mount namespaces here"
	exit 77
}
# shellcheck disable=SC2086,SC2016 # options; for the inner shell
KUBERNETES_SERVICE_HOST=10.96.0.1 POD_NAME=bert POD_NAMESPACE=vision \
	unshare $map --mount sh -euc 'mount --bind "$0" "$1"; shift; exec "$@"' "$kubelet/1f2e3d4c" "$scratch/termination-log" \
	"$spillway" run --softgpu --quiet --name pod --config "$podinfo/spillway.ini" "$allocate" --mib 8 --count 4 \
	--rounds 100000 --hold-ms 20 >"$scratch/out" 2>"$scratch/err" &
until_true $patience grep -q "round 1:.*total=$((64 * mib))" "$scratch/out" ||
	fail "not started at 64 MiB: $(head -n 3 "$scratch/out"; cat "$scratch/err")"
labels="pod=bert,namespace=vision,container=train,pod_uid=$uid"
has "stat" "$("$spillway" stat pod --json)" "\"labels\":\"$labels\""
# Where `make` itself runs in a pod, that pod's cgroup has another UID, and the mount goes before.
metrics=$("$spillway" stat --format prometheus | grep '^spillway_job_info')
for label in pod=bert namespace=vision container=train "pod_uid=$uid"; do
	has "metrics" "$metrics" ",${label%%=*}=\"${label#*=}\""
	has "metrics, as before" "$metrics" ",label_${label%%=*}=\"${label#*=}\""
done

annotation two 16MiB
until_true $patience grep -q "total=$((16 * mib))" "$scratch/out" || fail "resized: the program is not told of 16 MiB"
is_told() { case $("$spillway" stat pod --json) in *"\"limit_set\":$((16 * mib))"*) ;; *) return 1 ;; esac; }
until_true $patience is_told || fail "resized: stat: $("$spillway" stat pod)"
has "resized: events" "$("$spillway" events --state "$scratch/seen" pod)" "limit"
case $(cat "$scratch/out") in *WRONG*) fail "a byte was wrong" ;; esac

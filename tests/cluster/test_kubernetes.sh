#!/bin/sh
# SPDX-License-Identifier: MIT
# The values of conf/kubernetes against those of HAMi's chart, and the work of the DaemonSet's first
# container on a node's folder. tests/packages/test_manifests.sh has the API's schemas.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

# The folder of the node, by the very lines of the manifest.
vgpu=$scratch/vgpu
mkdir "$vgpu"
script() {
	python3 - <<-END
		import yaml
		pod = yaml.safe_load(open("conf/kubernetes/daemonset.yaml"))["spec"]["template"]["spec"]
		command = next(c for c in pod["containers"] if c["name"] == "library")["command"]
		assert command[:2] == ["/bin/sh", "-c"]
		print(command[2].replace("/usr/local/lib/spillway", "$build/lib").replace("/usr/local/vgpu/", "@")
		      .replace("/vgpu/", "$vgpu/").replace("@", "/usr/local/vgpu/").replace("sleep 10", "sleep 0.2"))
	END
}
python3 -c 'import yaml' || {
	echo "no python3-yaml"
	exit 77
}
echo old >"$vgpu/libvgpu.so"
echo old >"$vgpu/libvgpu.so.v2.10.0"
script >"$scratch/script"
sh "$scratch/script" >"$scratch/out" 2>&1 &
holder=$!
is_ours() { cmp -s "$build/lib/libvgpu.so" "$vgpu/$1"; }
for file in libvgpu.so libvgpu.so.v2.10.0; do
	until_true $patience is_ours $file || fail "$file: $(cat "$scratch/out")"
done
until_true $patience test -s "$vgpu/ld.so.preload" || fail "no list: $(cat "$scratch/out")"
same "list" /usr/local/vgpu/libvgpu.so "$(cat "$vgpu/ld.so.preload")"
# Another release of HAMi comes and puts its own there.
echo newer >"$vgpu/libvgpu.so.v2.11.0"
until_true $patience is_ours libvgpu.so.v2.11.0 || fail "newer: $(cat "$scratch/out")"
# Those of pods that run are not written into.
before=$(stat -c %i "$vgpu/libvgpu.so")
sleep 0.5
same "nothing to do" "$before" "$(stat -c %i "$vgpu/libvgpu.so")"
echo old >"$vgpu/new" && mv "$vgpu/new" "$vgpu/libvgpu.so"
exec 3<"$vgpu/libvgpu.so"
until_true $patience is_ours libvgpu.so || fail "replaced: $(cat "$scratch/out")"
same "a pod that runs" old "$(cat <&3)"
kill $holder
wait $holder || fail "it does not end as it is told to"

# HAMi's chart knows each of the values: those of its values.yaml (v2.10.0).
python3 - <<'END' || fail "values"
import yaml
of_chart = {"devicePlugin": {"image": {"registry": "", "repository": "", "tag": ""}, "deviceMemoryScaling": 1,
                             "disablecorelimit": "false"},
            "devices": {"nvidia": {"gpuCorePolicy": "default", "libCudaLogLevel": 1}}}


def check(ours, theirs, where):
    for key, value in ours.items():
        assert key in theirs, f"{where}{key}: the chart has no such value"
        assert isinstance(value, type(theirs[key])), f"{where}{key}: expected {type(theirs[key]).__name__}"
        if isinstance(value, dict):
            check(value, theirs[key], f"{where}{key}.")


values = yaml.safe_load(open("conf/kubernetes/hami-values.yaml"))
check(values, of_chart, "")
assert values["devices"]["nvidia"]["gpuCorePolicy"] in ("default", "force", "disable")
END

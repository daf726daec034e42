#!/bin/sh
# SPDX-License-Identifier: MIT
# The manifests of conf/kubernetes against the schemas of Kubernetes' API, of three versions, as
# kubernetes-validate carries them; it is kept outside the clone. Each other YAML file can be read.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
manifests="conf/kubernetes/pod.yaml conf/kubernetes/pod-hami.yaml conf/kubernetes/pod-kai.yaml
	conf/kubernetes/pod-resized.yaml conf/kubernetes/daemonset.yaml"
validator=${XDG_CACHE_HOME:-$HOME/.cache}/spillway/kubernetes-validate-1.37.0
mkdir -p "${validator%/*}"
exec 9>"$validator.lock"
flock 9
if [ ! -e "$validator/made" ]; then
	rm -rf "$validator"
	if ! { python3 -m venv "$validator" && "$validator/bin/pip" install --quiet --disable-pip-version-check --no-input \
		kubernetes-validate==1.37.0; } >"$scratch/said" 2>&1; then
		rm -rf "$validator"
		echo "kubernetes-validate cannot be had: $(tail -n 1 "$scratch/said")"
		exit 77
	fi
	touch "$validator/made"
fi
exec 9>&-
# shellcheck disable=SC2086 # words
for api in 1.28 1.34 1.37; do
	"$validator/bin/kubernetes-validate" -k "$api" --strict $manifests >"$scratch/said" 2>&1 ||
		fail "Kubernetes $api: $(cat "$scratch/said")"
done
# They do find what is wrong.
sed 's/hostPID: true/hostPid: true/' conf/kubernetes/daemonset.yaml >"$scratch/wrong.yaml"
! "$validator/bin/kubernetes-validate" -k 1.34 --strict "$scratch/wrong.yaml" >"$scratch/said" 2>&1 || fail "nothing is wrong with hostPid"

# A manifest that is new is in the list; values are no manifest.
grep -l '^apiVersion:' conf/*/*.yaml | LC_ALL=C sort >"$scratch/there"
# shellcheck disable=SC2086 # words
printf '%s\n' $manifests | LC_ALL=C sort | diff - "$scratch/there" || fail 'the list of manifests'
"$validator/bin/python" - .github/workflows/*.yml conf/*/*.y*ml <<'END' || fail 'YAML'
import sys
import yaml

for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        assert list(yaml.safe_load_all(file)), path
END

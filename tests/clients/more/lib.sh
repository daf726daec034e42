# SPDX-License-Identifier: MIT
# Sourced by the members here, after tests/e2e/lib.sh: their packages lie over those of ../python,
# which brings NVRTC.
# shellcheck shell=sh disable=SC2034,SC2154
# shellcheck source=tests/clients/python/lib.sh
. tests/clients/python/lib.sh
few_launches=yes # of some of them
here=tests/clients/more
more=$(cd build/more 2>/dev/null && pwd) || more=
[ -n "$more" ] && [ -e "$more/made" ] ||
	skip "$(cat build/more.why 2>/dev/null || echo 'no packages: make more-clients')"
# Python keeps its bytecode outside the packages, which are fetched without.
export PYTHONPATH="$more/packages" PYTHONPYCACHEPREFIX="$more/bytecode"
unset PYTHONDONTWRITEBYTECODE
python=$python_env/bin/python

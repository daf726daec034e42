#!/bin/sh
# SPDX-License-Identifier: MIT
# hashcat of the distribution, unmodified, compiles its kernels by NVRTC, finds a word, and judges.
set -eu
. tests/e2e/lib.sh
. tests/clients/more/lib.sh
command -v hashcat >/dev/null || skip "no hashcat: the distribution's package of that name"
found=$(hashcat --version)
member "hashcat" "$(version '# hashcat')" "finds a word by its MD5"
[ "${found#v}" = "$(version '# hashcat')" ] || skip "hashcat $found: another version than the pinned one"
export HOME="$scratch"
# It looks for free memory, and ends where that is too little for its buffers.
OPTIONS="--reported-memory limit+host"
program="$here/hashcat_finds"
judge

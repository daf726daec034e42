#!/bin/sh
# SPDX-License-Identifier: MIT
# Each file of the tarball has a licence, as reuse judges; the digits have their own.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
version=$(sed -n 's/^version := //p' Makefile)
reuse=$build/packages/venv/bin/reuse
tar -C "$scratch" -xzf "$build/packages/spillway-$version.tar.gz"
sources=$scratch/spillway-$version
"$reuse" --root "$sources" lint >"$scratch/said" 2>&1 || fail "reuse: $(tail -n 40 "$scratch/said")"
same "the licences in use" 'CC-BY-4.0, MIT' "$(sed -n 's/^\* Used licenses: //p' "$scratch/said")"
"$reuse" --root "$sources" spdx >"$scratch/spdx" 2>"$scratch/said" || fail "reuse: $(cat "$scratch/said")"
same "files that are not under MIT" './tests/clients/data/README ./tests/clients/data/digits.csv' \
	"$(awk '/^FileName: / { file = $2 } /^LicenseInfoInFile: / && $2 != "MIT" { print file }' "$scratch/spdx" | LC_ALL=C sort | paste -s -d ' ')"
cmp LICENSE LICENSES/MIT.txt || fail 'LICENSE and LICENSES/MIT.txt differ'
for text in LICENSES/*.txt; do
	unzip -p "$build"/packages/gpu_spillway-*.whl "*/licenses/$text" | cmp - "$text" || fail "the wheel has not $text"
	dpkg-deb --fsys-tarfile "$(ls "$build"/packages/spillway_"$version"_*.deb)" | tar -xO ./usr/share/doc/spillway/copyright >"$scratch/copyright"
	has "Debian's copyright" "$(cat "$scratch/copyright")" "$(sed 's/^$/./; s/^/ /' "$text")"
done
# A file without its line is found, as is a licence without its text.
sed -i 1d "$sources/core/base/lock.h"
! "$reuse" --root "$sources" lint >"$scratch/said" 2>&1 || fail 'reuse misses no line of a file'
has 'the file without its line' "$(cat "$scratch/said")" 'core/base/lock.h'
cp core/base/lock.h "$sources/core/base/"
rm "$sources/LICENSES/CC-BY-4.0.txt"
! "$reuse" --root "$sources" lint >"$scratch/said" 2>&1 || fail 'reuse misses no text of a licence'

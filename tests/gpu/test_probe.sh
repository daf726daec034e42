#!/bin/sh
# SPDX-License-Identifier: MIT
# The probe gives an answer to every question on the software GPU too, in both formats.
set -eu
: "${BUILD:=build}"
LD_LIBRARY_PATH=$BUILD/softgpu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

"$BUILD/gpu/probe" --json="$TMPDIR/json" >"$TMPDIR/text" || { cat "$TMPDIR/text"; exit 1; }
cat "$TMPDIR/text"
python3 - "$TMPDIR/text" "$TMPDIR/json" <<-EOF
	import json, sys
	lines = [line.split(": ", 1) for line in open(sys.argv[1])]
	text = {name for name, answer in lines if answer.strip()}
	answers = json.load(open(sys.argv[2]))
	if len(text) != len(lines) or text != set(answers):
	    sys.exit(f"asked twice, not answered or in one format only: {text ^ set(answers)}")
	bad = ("wrong bytes", "lost counts", "died", "no answer")
	if wrong := [name for name in answers if answers[name]["answer"] in bad]:
	    sys.exit(f"wrong: {wrong}")
EOF

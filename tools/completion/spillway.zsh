#compdef spillway
# SPDX-License-Identifier: MIT
# Completion of the spillway command for zsh: `spillway complete` answers.

local line
local -a answer offered
answer=("${(@f)$($words[1] complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
[[ $PREFIX != --*=* ]] || compset -P '*='
case $answer[1] in
@files) _files ;;
@programs) _command_names -e || _files ;;
*)
	for line in $answer; do
		offered+=("${${line//:/\\:}/$'\t'/:}")
	done
	_describe spillway offered
	;;
esac

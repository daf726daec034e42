# SPDX-License-Identifier: MIT
# types.zsh FUNCTIONS LINE: types LINE and a tab into a zsh at a terminal of its own, whose
# completion functions lie in FUNCTIONS too, and prints the line as it stands then.
zmodload zsh/zpty
setopt extended_glob

# Reads until the screen has shown the text.
await() {
	local more
	until [[ $shown == *$1* ]]; do
		zpty -r typed more || exit 1
		shown+=$more
	done
}

shown=
zpty typed zsh -f -i
zpty -w typed "PS1= PS2= RPS1=; fpath=(${(q)1} \$fpath); unsetopt prompt_sp prompt_cr beep auto_menu list_ambiguous"
zpty -w typed 'autoload -U compinit; compinit -u -D'
# The finished line is printed between marks, whatever the screen's own codes are.
zpty -w typed 'finished() { print -r -- "<""<$BUFFER>"">"; zle kill-buffer }; zle -N finished; bindkey "^X" finished; bindkey "^I" complete-word'
zpty -w typed 'print be""gin'
await begin
zpty -n -w typed "$2"$'\t\C-x'
await '>>'
line=${${shown##*<<}%%>>*}
print -r -- "${line%% #}"

# SPDX-License-Identifier: MIT
# Completion of the spillway command for fish: `spillway complete` answers.

function __spillway_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l before (string match -r -- '^--[a-z-]+=' $words[-1])
    for line in ($words[1] complete $words[2..] 2>/dev/null)
        switch $line
            case @files
                __fish_complete_path (string replace -- "$before" '' $words[-1])
            case @programs
                __fish_complete_command
                __fish_complete_path $words[-1]
            case '*'
                echo "$before$line"
        end
    end
end

complete -c spillway -f -a '(__spillway_complete)'

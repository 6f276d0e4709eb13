# Completion of oomctl for fish: oomctl completions fish | source

function __oomctl_offers
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    set -l typed (commandline --current-token --cut-at-cursor)
    # Without its quotes, of which one may still be open.
    set -l word (string unescape -- "$typed"; or string unescape -- "$typed'"; or string unescape -- "$typed\""; or echo -- "$typed")
    set -l offers (OOMCTL_COMPLETE=fish oomctl -- $words "$word" 2> /dev/null)
    if test (count $offers) -gt 0
        printf '%s\n' $offers
    else
        __fish_complete_path "$typed"
    end
end

complete --command oomctl --keep-order --no-files --arguments '(__oomctl_offers)'
# What fish itself expands is a file.
complete --command oomctl --condition "string match --quiet --regex '^[~\$]' -- (commandline --current-token)" --force-files

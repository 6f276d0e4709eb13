# Completion of oomctl for bash: source <(oomctl completions bash)
_oomctl() {
    local -a words=()
    local index=0 i
    # Bash took the line apart at `=` and `:`; what stood together is put together again.
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        if ((i > 1)) && [[ ${COMP_WORDS[i]} == [=:]* || ${COMP_WORDS[i-1]} == *[=:] ]]; then
            words[${#words[@]}-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
        ((i == COMP_CWORD)) && index=$((${#words[@]} - 1))
    done
    local typed=${words[index]} IFS=$'\013'
    COMPREPLY=($(OOMCTL_COMPLETE=bash _CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX="$index" \
        oomctl -- "${words[@]}" 2> /dev/null))
    # Only what stands behind the last `=` or `:` is replaced.
    local kept=${typed%"${typed##*[=:]}"}
    if [[ -n $kept && $COMP_WORDBREAKS == *"${kept: -1}"* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    fi
    if [[ ${COMPREPLY-} == *[=/:] ]]; then
        compopt -o nospace 2> /dev/null
    fi
}
complete -o bashdefault -F _oomctl oomctl

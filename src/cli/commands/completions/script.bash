# Completion of oomctl for bash: source <(oomctl completions bash)

# Sets `bare` to a word as the program would get it, `quote` to the quote that is open at its end, and `kept` to
# the part of `bare` that stands before what readline replaces: up to the last `=`, `:` or quote.
_oomctl_bare() {
    local i letter
    bare='' quote='' kept=''
    for ((i = 0; i < ${#1}; i++)); do
        letter=${1:i:1}
        if [[ $letter == \\ && $quote != \' ]]; then
            ((i++))
            bare+=${1:i:1}
        elif [[ -n $quote && $letter == "$quote" ]]; then
            quote=''
        elif [[ -z $quote && $letter == [\"\'] ]]; then
            quote=$letter kept=$bare
        else
            bare+=$letter
            if [[ -z $quote && $letter == [=:] && $COMP_WORDBREAKS == *"$letter"* ]]; then kept=$bare; fi
        fi
    done
}

_oomctl() {
    local -a raw=() words=() offers=()
    local bare quote kept index=0 i
    # Bash took the line apart at `=` and `:`; what stood together is put together again.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((i > 1)) && [[ ${COMP_WORDS[i]} == [=:]* || ${COMP_WORDS[i-1]} == *[=:] ]]; then
            raw[index]+=${COMP_WORDS[i]}
        else
            index=${#raw[@]}
            raw+=("${COMP_WORDS[i]}")
        fi
    done
    COMPREPLY=()
    # What bash itself expands is a file, and those are left to it.
    if [[ ${raw[index]} == [~\$]* ]]; then return; fi
    for i in "${raw[@]}"; do
        _oomctl_bare "$i"
        words+=("$bare")
    done
    mapfile -t offers < <(OOMCTL_COMPLETE=bash _CLAP_COMPLETE_INDEX=$index oomctl -- "${words[@]}" 2> /dev/null)
    offers=("${offers[@]#"$kept"}")
    if [[ -n $quote && ${offers-} == */ ]]; then
        # Readline puts the slash behind the quote, so that the next Tab goes on from there; but only for files.
        compopt -o filenames 2> /dev/null
        COMPREPLY=("${offers[@]%/}")
        return
    fi
    for i in "${offers[@]}"; do
        case $quote in
            \") i=${i//\\/\\\\} i=${i//\"/\\\"} i=${i//\$/\\\$} i=${i//\`/\\\`} ;;
            \') i=${i//\'/\'\\\'\'} ;;
            *) printf -v i %q "$i" ;;
        esac
        COMPREPLY+=("$i")
    done
    if [[ ${offers-} == *[=/:] ]]; then
        compopt -o nospace 2> /dev/null
    fi
}
complete -o bashdefault -o default -F _oomctl oomctl

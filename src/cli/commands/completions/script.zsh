#compdef oomctl
# Completion of oomctl for zsh: source <(oomctl completions zsh)

_oomctl() {
    # What zsh itself expands is a file.
    if [[ -z $QIPREFIX && $PREFIX == [~\$]* ]]; then
        _files
        return
    fi
    # What is typed so far, without its quotes, of which one may still be open.
    local -a typed=("${(@Q)words[1,CURRENT]}")
    typed[CURRENT]=${(Q):-$QIPREFIX$PREFIX$QIPREFIX}
    local -a offers=("${(@f)$(OOMCTL_COMPLETE=zsh _CLAP_COMPLETE_INDEX=$((CURRENT - 1)) \
        oomctl -- "${typed[@]}" 2> /dev/null)}")
    local -a whole=() open=()
    local offer value
    for offer in "${(@)offers:#}"; do
        # The value ends at the first colon that is not escaped; where it ends in `=` or `/`, more will follow.
        value=${${offer//\\:/_}%%:*}
        if [[ $value == *[=/] ]]; then open+=("$offer"); else whole+=("$offer"); fi
    done
    if (( ! $#whole && ! $#open )); then
        _files
        return
    fi
    local found=1
    (( $#open )) && _describe -V 'values' open -S '' && found=0
    (( $#whole )) && _describe -V 'values' whole && found=0
    return found
}

# From a folder of functions this file is read at the first Tab, which wants its answer.
if [[ ${funcstack[1]} == _oomctl ]]; then
    _oomctl "$@"
else
    compdef _oomctl oomctl
fi

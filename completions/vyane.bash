# bash completion for vyane: commands, sub-commands, and the names of workers.
_vyane() {
    local current=${COMP_WORDS[COMP_CWORD]} command="" word home names
    local commands="send reply relay inbox show why status workers topology spawn wait report logs takeover cancel project task taskgraph goal need-user timeline watch turn bind unbind bindings route mirror init hooks doctor config gc demo completion describe tick uninstall"
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in -*) ;; *) command=$word; break ;; esac
    done
    home=${VYANE_HOME:-${XDG_CONFIG_HOME:-$HOME/.config}/vyane}
    names=$(cat "$home/worker-names" 2>/dev/null)
    local IFS=$' \n'
    case $command in
    "") COMPREPLY=($(compgen -W "$commands --json --home --version --help" -- "$current")) ;;
    send | inbox | relay | watch | timeline | wait | logs | topology | takeover | cancel | bind | route)
        IFS=$'\n'
        COMPREPLY=($(compgen -W "$names" -- "$current")) ;;
    workers) COMPREPLY=($(compgen -W "list register rename $names" -- "$current")) ;;
    hooks) COMPREPLY=($(compgen -W "install uninstall status" -- "$current")) ;;
    config) COMPREPLY=($(compgen -W "list get set" -- "$current")) ;;
    project) COMPREPLY=($(compgen -W "list create show select edit join leave" -- "$current")) ;;
    task) COMPREPLY=($(compgen -W "add list show edit report" -- "$current")) ;;
    taskgraph) COMPREPLY=($(compgen -W "show add mark remove" -- "$current")) ;;
    goal) COMPREPLY=($(compgen -W "set show accept status" -- "$current")) ;;
    need-user) COMPREPLY=($(compgen -W "list add resolve notify" -- "$current")) ;;
    turn) COMPREPLY=($(compgen -W "start emit finish" -- "$current")) ;;
    bindings) COMPREPLY=($(compgen -W "list resolve touch sweep channel" -- "$current")) ;;
    mirror) COMPREPLY=($(compgen -W "push pull status" -- "$current")) ;;
    completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$current")) ;;
    esac
}
complete -F _vyane vyane

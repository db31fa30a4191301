#compdef vyane
# zsh completion for vyane: commands, sub-commands, and the names of workers.
_vyane() {
    local home=${VYANE_HOME:-${XDG_CONFIG_HOME:-$HOME/.config}/vyane}
    local -a commands names
    commands=(send reply relay inbox show why status workers topology spawn wait report logs takeover cancel project task taskgraph goal need-user timeline watch turn bind unbind bindings route mirror init hooks doctor config gc demo completion describe tick uninstall)
    names=(${(f)"$(cat $home/worker-names 2>/dev/null)"})
    if ((CURRENT == 2)); then
        compadd -- $commands --json --home --version --help
        return
    fi
    case ${words[2]} in
    send | inbox | relay | watch | timeline | wait | logs | topology | takeover | cancel | bind | route) compadd -- $names ;;
    workers) compadd -- list register rename $names ;;
    hooks) compadd -- install uninstall status ;;
    config) compadd -- list get set ;;
    project) compadd -- list create show select edit join leave ;;
    task) compadd -- add list show edit report ;;
    taskgraph) compadd -- show add mark remove ;;
    goal) compadd -- set show accept status ;;
    need-user) compadd -- list add resolve notify ;;
    turn) compadd -- start emit finish ;;
    bindings) compadd -- list resolve touch sweep channel ;;
    mirror) compadd -- push pull status ;;
    completion) compadd -- bash zsh fish ;;
    esac
}
compdef _vyane vyane

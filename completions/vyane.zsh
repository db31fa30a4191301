#compdef vyane
# zsh completion for vyane: commands, sub-commands, and the names of what there is.
_vyane_ids() { grep -ohs '"id": *"[^"]*"' "$@" | cut -d'"' -f4 | sort -u; }

_vyane() {
    local home=${VYANE_HOME:-${XDG_CONFIG_HOME:-$HOME/.config}/vyane} project='*'
    local -i at
    at=${words[(I)--home]}
    ((at && at + 1 < CURRENT)) && home=${words[at + 1]}
    at=${words[(I)--project]}
    ((at && at + 1 < CURRENT)) && project=${words[at + 1]}
    local -a commands names projects tasks nodes needs
    commands=(send reply relay inbox show why status workers topology spawn wait report logs takeover cancel project task taskgraph goal need-user timeline watch turn bind unbind bindings route mirror wake schedule init hooks doctor config gc demo completion describe tick uninstall)
    names=(${(f)"$(cat $home/worker-names 2>/dev/null)"})
    projects=(${(f)"$(ls $home/projects 2>/dev/null)"})
    tasks=(${(f)"$(_vyane_ids $home/projects/${~project}/tasks.json(N) </dev/null)"})
    nodes=(${(f)"$(_vyane_ids $home/projects/${~project}/taskgraph.json(N) </dev/null)"})
    needs=(${(f)"$(sed -n 's/^- \(N[0-9]*\) .*/\1/p' $home/queue/NEED-USER.md 2>/dev/null)"})
    if ((CURRENT == 2)); then
        compadd -- $commands --json --home --version --help
        return
    fi
    case ${words[CURRENT - 1]} in
    --project) compadd -- $projects; return ;;
    --schedule) compadd -- A B; return ;;
    --task) compadd -- $tasks; return ;;
    --after) compadd -- $tasks $nodes; return ;;
    --main | --parent | --worker) compadd -- $names; return ;;
    esac
    local sub=""
    ((CURRENT > 3)) && sub=${words[3]}
    case "${words[2]} $sub" in
    "send "* | "inbox "* | "relay "* | "watch "* | "wait "* | "logs "* | "topology "*) compadd -- $names ;;
    "takeover "* | "cancel "* | "bind "* | "route "* | "timeline "?*) compadd -- $names ;;
    "timeline ") compadd -- show verify export delete $names ;;
    "workers rename" | "project leave") compadd -- $names ;;
    "project show" | "project edit" | "project select") compadd -- $projects ;;
    "project join") compadd -- $projects $names ;;
    "task show" | "task edit" | "task report") compadd -- $tasks ;;
    "taskgraph add" | "taskgraph mark" | "taskgraph remove") compadd -- $nodes ;;
    "need-user resolve") compadd -- $needs ;;
    "schedule set") compadd -- A B ;;
    "workers ") compadd -- list register rename ;;
    "project ") compadd -- list create show select edit join leave ;;
    "task ") compadd -- add list show edit report ;;
    "taskgraph ") compadd -- show add mark remove ;;
    "goal ") compadd -- set show accept status ;;
    "need-user ") compadd -- list add resolve notify ;;
    "turn ") compadd -- start emit finish ;;
    "bindings ") compadd -- list resolve touch sweep channel ;;
    "mirror ") compadd -- push pull status ;;
    "schedule ") compadd -- install remove list next set pause resume ;;
    "hooks ") compadd -- install uninstall status ;;
    "config ") compadd -- list get set ;;
    "completion ") compadd -- bash zsh fish ;;
    esac
}
compdef _vyane vyane

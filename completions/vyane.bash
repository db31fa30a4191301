# bash completion for vyane: commands, sub-commands, and the names of what there is.
_vyane_ids() { grep -ohs '"id": *"[^"]*"' "$@" | cut -d'"' -f4 | sort -u; }

_vyane() {
    local current=${COMP_WORDS[COMP_CWORD]} last="" command="" sub="" project="*" found="" word
    local home=${VYANE_HOME:-${XDG_CONFIG_HOME:-$HOME/.config}/vyane}
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $last$word in
        --home*) home=$word ;;
        --project*) project=$word ;;
        -*) ;;
        *) if [ -z "$command" ]; then command=$word; elif [ -z "$sub" ]; then sub=$word; fi ;;
        esac
        case $word in --home | --project) last=$word ;; *) last="" ;; esac
    done
    [[ $project =~ ^[A-Za-z0-9_-]+$ ]] || project="*"
    local IFS=$'\n'
    local names projects tasks nodes needs
    names=$(cat "$home/worker-names" 2>/dev/null)
    projects=$(ls "$home/projects" 2>/dev/null)
    tasks=$(_vyane_ids "$home"/projects/$project/tasks.json)
    nodes=$(_vyane_ids "$home"/projects/$project/taskgraph.json)
    needs=$(sed -n 's/^- \(N[0-9]*\) .*/\1/p' "$home/queue/NEED-USER.md" 2>/dev/null)

    case ${COMP_WORDS[COMP_CWORD - 1]} in
    --project) found=$projects ;;
    --schedule) found=A$'\n'B ;;
    --task) found=$tasks ;;
    --after) found=$tasks$'\n'$nodes ;;
    --main | --parent | --worker) found=$names ;;
    *)
        case "$command $sub" in
        "send "* | "inbox "* | "relay "* | "watch "* | "wait "* | "logs "* | "topology "*) found=$names ;;
        "takeover "* | "cancel "* | "bind "* | "route "* | "timeline "?*) found=$names ;;
        "timeline ") found=show$'\n'verify$'\n'export$'\n'delete$'\n'$names ;;
        "workers rename" | "project leave") found=$names ;;
        "project show" | "project edit" | "project select") found=$projects ;;
        "project join") found=$projects$'\n'$names ;;
        "task show" | "task edit" | "task report") found=$tasks ;;
        "taskgraph add" | "taskgraph mark" | "taskgraph remove") found=$nodes ;;
        "need-user resolve") found=$needs ;;
        "schedule set") found=A$'\n'B ;;
        esac
        ;;
    esac
    COMPREPLY=($(compgen -W "$found" -- "$current"))
    [ -z "$found" ] || return
    IFS=$' \n'
    case "$command $sub" in
    " ") found="send reply relay inbox show why status workers topology spawn wait report logs takeover cancel project task taskgraph goal need-user timeline watch turn bind unbind bindings route mirror wake schedule init hooks doctor config gc demo completion describe tick uninstall --json --home --version --help" ;;
    "workers ") found="list register rename" ;;
    "project ") found="list create show select edit join leave" ;;
    "task ") found="add list show edit report" ;;
    "taskgraph ") found="show add mark remove" ;;
    "goal ") found="set show accept status" ;;
    "need-user ") found="list add resolve notify" ;;
    "turn ") found="start emit finish" ;;
    "bindings ") found="list resolve touch sweep channel" ;;
    "mirror ") found="push pull status" ;;
    "schedule ") found="install remove list next set pause resume" ;;
    "hooks ") found="install uninstall status" ;;
    "config ") found="list get set" ;;
    "completion ") found="bash zsh fish" ;;
    esac
    COMPREPLY=($(compgen -W "$found" -- "$current"))
}
complete -F _vyane vyane

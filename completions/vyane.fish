# fish completion for vyane: commands, sub-commands, and the names of workers.
function __vyane_names
    set -l home $VYANE_HOME
    if test -z "$home"
        set -l config $XDG_CONFIG_HOME
        test -z "$config"; and set config $HOME/.config
        set home $config/vyane
    end
    cat $home/worker-names 2>/dev/null
end
set -l commands send reply relay inbox show why status workers topology spawn wait report logs takeover cancel project task taskgraph goal need-user timeline watch turn bind unbind bindings route mirror init hooks doctor config gc demo completion describe tick uninstall
complete -c vyane -f
complete -c vyane -n "not __fish_seen_subcommand_from $commands" -a "$commands"
complete -c vyane -l json -d "One JSON document"
complete -c vyane -l home -r -d "Folder of the state"
complete -c vyane -n "__fish_seen_subcommand_from send inbox relay watch timeline workers wait logs topology takeover cancel bind route" -a "(__vyane_names)"
complete -c vyane -n "__fish_seen_subcommand_from workers" -a "list register rename"
complete -c vyane -n "__fish_seen_subcommand_from hooks" -a "install uninstall status"
complete -c vyane -n "__fish_seen_subcommand_from config" -a "list get set"
complete -c vyane -n "__fish_seen_subcommand_from project" -a "list create show select edit join leave"
complete -c vyane -n "__fish_seen_subcommand_from task" -a "add list show edit report"
complete -c vyane -n "__fish_seen_subcommand_from taskgraph" -a "show add mark remove"
complete -c vyane -n "__fish_seen_subcommand_from goal" -a "set show accept status"
complete -c vyane -n "__fish_seen_subcommand_from need-user" -a "list add resolve notify"
complete -c vyane -n "__fish_seen_subcommand_from turn" -a "start emit finish"
complete -c vyane -n "__fish_seen_subcommand_from bindings" -a "list resolve touch sweep channel"
complete -c vyane -n "__fish_seen_subcommand_from mirror" -a "push pull status"
complete -c vyane -n "__fish_seen_subcommand_from completion" -a "bash zsh fish"

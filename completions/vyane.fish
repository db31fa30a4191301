# fish completion for vyane: commands, sub-commands, and the names of what there is.
function __vyane_home
    set -l home $VYANE_HOME
    if test -z "$home"
        set -l config $XDG_CONFIG_HOME
        test -z "$config"; and set config $HOME/.config
        set home $config/vyane
    end
    echo $home
end
function __vyane_names
    cat (__vyane_home)/worker-names 2>/dev/null
end
function __vyane_projects
    ls (__vyane_home)/projects 2>/dev/null
end
function __vyane_ids # FILE: the ids in that file of each project
    for file in (__vyane_home)/projects/*/$argv[1]
        string match -rg '"id": *"([^"]*)"' <$file
    end
end
function __vyane_needs
    set -l page (__vyane_home)/queue/NEED-USER.md
    test -r $page; and string match -rg "^- (N[0-9]+) " <$page
end
function __vyane_in # COMMAND: right behind it
    __fish_seen_subcommand_from $argv[1]; and test (count (commandline -opc)) -eq 2
end
function __vyane_at # COMMAND SUB…: in one of these sub-commands of it
    __fish_seen_subcommand_from $argv[1]; and __fish_seen_subcommand_from $argv[2..]
end
set -l commands send reply relay inbox show why status workers topology spawn wait report logs takeover cancel project task taskgraph goal need-user timeline watch turn bind unbind bindings route mirror wake schedule init hooks doctor config gc demo completion describe tick uninstall
complete -c vyane -f
complete -c vyane -n "not __fish_seen_subcommand_from $commands" -a "$commands"
complete -c vyane -l json -d "One JSON document"
complete -c vyane -l home -r -d "Folder of the state"
complete -c vyane -l project -x -a "(__vyane_projects)"
complete -c vyane -l schedule -x -a "A B"
complete -c vyane -l task -x -a "(__vyane_ids tasks.json)"
complete -c vyane -l after -x -a "(__vyane_ids tasks.json; __vyane_ids taskgraph.json)"
complete -c vyane -l main -x -a "(__vyane_names)"
complete -c vyane -l parent -x -a "(__vyane_names)"
complete -c vyane -l worker -x -a "(__vyane_names)"
complete -c vyane -n "__fish_seen_subcommand_from send inbox relay watch timeline wait logs topology takeover cancel bind route" -a "(__vyane_names)"
complete -c vyane -n "__vyane_at workers rename; or __vyane_at project join leave" -a "(__vyane_names)"
complete -c vyane -n "__vyane_at project show edit select join" -a "(__vyane_projects)"
complete -c vyane -n "__vyane_at task show edit report" -a "(__vyane_ids tasks.json)"
complete -c vyane -n "__vyane_at taskgraph add mark remove" -a "(__vyane_ids taskgraph.json)"
complete -c vyane -n "__vyane_at need-user resolve" -a "(__vyane_needs)"
complete -c vyane -n "__vyane_at schedule set" -a "A B"
complete -c vyane -n "__vyane_in workers" -a "list register rename"
complete -c vyane -n "__vyane_in hooks" -a "install uninstall status"
complete -c vyane -n "__vyane_in config" -a "list get set"
complete -c vyane -n "__vyane_in project" -a "list create show select edit join leave"
complete -c vyane -n "__vyane_in task" -a "add list show edit report"
complete -c vyane -n "__vyane_in taskgraph" -a "show add mark remove"
complete -c vyane -n "__vyane_in goal" -a "set show accept status"
complete -c vyane -n "__vyane_in need-user" -a "list add resolve notify"
complete -c vyane -n "__vyane_in timeline" -a "show verify export delete"
complete -c vyane -n "__vyane_in turn" -a "start emit finish"
complete -c vyane -n "__vyane_in bindings" -a "list resolve touch sweep channel"
complete -c vyane -n "__vyane_in mirror" -a "push pull status"
complete -c vyane -n "__vyane_in schedule" -a "install remove list next set pause resume"
complete -c vyane -n "__vyane_in completion" -a "bash zsh fish"

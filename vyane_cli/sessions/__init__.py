"""Workers and host sessions: registry, identity, authority, liveness, marker files, tmux panes."""

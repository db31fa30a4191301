"""Where the nouns of core live on disk: paths, locks, journals, documents."""

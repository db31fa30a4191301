"""History: queries, stories, exports, deletion and producers of a session's timeline."""

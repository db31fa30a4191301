"""One module per verb of the command line: arguments, one operation, render."""

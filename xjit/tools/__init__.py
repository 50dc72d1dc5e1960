"""The command line: `main` has the table of commands, a module for each."""

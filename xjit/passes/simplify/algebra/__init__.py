"""The rules of the simplifier, one file per theme: equations that hold bit by bit."""

"""The ways to run a program: the native call, ctypes, thunk by thunk, simulated."""

"""NVIDIA's libraries, through ctypes: found when they are installed, loaded when a program needs them."""

"""Matrix multiplications and convolutions as hand-blocked vector code.

Role: the heavy kernels. `blocking` decides at compile time, in plain numbers; `packing` copies operands, `microkernels`
keep sums in registers, `driver`, `block` and `strips` are the loops of a multiplication, `convolution` those of a
convolution, `direct` the code of small products; `library` has the modules that programs share. Nothing here knows of
HLO.
"""

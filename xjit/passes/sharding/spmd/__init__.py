"""The SPMD partitioner: one program for all devices out of a module with shardings."""

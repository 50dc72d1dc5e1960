"""Planners for GPUs: what blocks, warps and threads do, so that neighbouring threads touch neighbouring memory."""

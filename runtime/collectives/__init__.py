"""Programs over several devices of one process: who meets whom, and what is moved between them."""

from xjit.runtime.collectives.sharded_call import ShardedCall

__all__ = ["ShardedCall"]

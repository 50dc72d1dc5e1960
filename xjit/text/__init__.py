"""HLO text and protos: reading modules. (Printing needs only the graph: xjit/hlo/io/printing.py.)"""

from xjit.hlo.io.serialization import create_module_config_from_proto
from xjit.text.parser import parse_hlo
from xjit.text.proto import create_from_proto, to_proto

__all__ = ["create_from_proto", "create_module_config_from_proto", "parse_hlo", "to_proto"]

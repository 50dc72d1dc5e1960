"""How values are written in HLO text: one `Codec` (parse and format) per kind of attribute value.

The parser (xjit/text) and the printer (xjit/hlo/io/printing.py) share this table, so both halves of every spelling are
side by side. Codecs work on the text of one value alone and know nothing of instructions.
"""

from xjit.hlo.attributes.codecs.registry import CODECS, AttributeField, attribute_fields
from xjit.hlo.attributes.codecs.value_text import Codec, CodecError

__all__ = ["CODECS", "AttributeField", "Codec", "CodecError", "attribute_fields"]

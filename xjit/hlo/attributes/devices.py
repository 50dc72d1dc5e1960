"""Attributes of what talks to other devices and to the host."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo.attributes.declaration import Attributes, attr
from xjit.hlo.attributes.values import ReplicaGroups
from xjit.hlo.types.shape import Shape


@dataclass(frozen=True, slots=True)
class CollectiveAttributes(Attributes):
    """all-reduce, collective-broadcast, all-to-all, ragged-all-to-all and their start forms."""

    channel_id: int | None = attr("int", None)
    replica_groups: ReplicaGroups = attr("replica_groups", ReplicaGroups(), always=True)
    constrain_layout: bool = attr("bool", False)
    use_global_device_ids: bool = attr("bool", False)
    dimensions: tuple[int, ...] = attr("int_list", ())  # all-gather, reduce-scatter, all-to-all


@dataclass(frozen=True, slots=True)
class CollectivePermuteAttributes(Attributes):
    channel_id: int | None = attr("int", None)
    source_target_pairs: tuple[tuple[int, ...], ...] = attr("int_pairs", (), always=True)
    slice_sizes: tuple[tuple[int, ...], ...] = attr("int_lists", ())


@dataclass(frozen=True, slots=True)
class ChannelAttributes(Attributes):
    """send, recv and their done forms."""

    channel_id: int | None = attr("int", None)
    is_host_transfer: bool = attr("bool", False)


@dataclass(frozen=True, slots=True)
class InfeedAttributes(Attributes):
    infeed_config: str = attr("string", "")


@dataclass(frozen=True, slots=True)
class OutfeedAttributes(Attributes):
    outfeed_config: str = attr("string", "")
    outfeed_shape: Shape | None = attr("shape", None)

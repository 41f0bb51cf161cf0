"""The devices that a signed-in Chromium knows, by the ids that its history and its synced tabs name them with (pure).

In the database of `Sync Data/LevelDB` they are `device_info-dt-ID`, the protocol buffer `DeviceInfoSpecifics` of
components/sync/protocol/device_info_specifics.proto. Which of them is this machine stands in the `DataTypeState` of
data_type_state.proto, beside the data that it belongs to.
"""

from collections.abc import Mapping

from lspipe.browsers import protobuf

#: Of data without an account of its own, and with one.
STORES = (b"", b"A-")
#: Keys by what is behind them.
INFO, OWN = b"device_info-dt-", b"-GlobalMetadata"
PREFIXES = tuple(store + INFO for store in STORES)
#: Stands for every other device.
ALL = "all"
_ID, _NAME = 1, 2
_CACHE_GUID = 5


def names(values: Mapping[bytes, bytes]) -> dict[str, str]:
    """Id to name of the devices that have one; what is broken is passed over."""
    found: dict[str, str] = {}
    for key, value in sorted(values.items()):
        prefix = next((prefix for prefix in PREFIXES if key.startswith(prefix)), None)
        fields = None if prefix is None else protobuf.last(value)
        if prefix is not None and fields is not None:
            number = protobuf.text(fields.get(_ID)) or key[len(prefix):].decode("utf-8", "replace")
            name = protobuf.text(fields.get(_NAME))
            if name:
                found[number] = name
    return found


def own(values: Mapping[bytes, bytes], kind: bytes) -> set[str]:
    """The id of this machine, as the state of a kind of data (`sessions`) has it."""
    states = (protobuf.last(values.get(store + kind + OWN, b"")) or {} for store in STORES)
    return {number for state in states if (number := protobuf.text(state.get(_CACHE_GUID))) is not None}


def means(typed: str, number: str, name: str | None) -> bool:
    """Whether what a person typed means this device: `all`, its name in any case, or how its id begins."""
    return typed == ALL or number.startswith(typed) or (name or "").casefold() == typed.casefold()

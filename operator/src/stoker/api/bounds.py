"""How large and how deep an object may be: what etcd can hold beside the status that the operator writes, and what each
step of the operator can walk through.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from stoker.api.schema import Violation, explained
from stoker.api.structural import Fault, depth

MAX_DEPTH = 64
"""Levels of mappings and lists in a field of the spec."""
MAX_SPEC_BYTES = 262_144
"""Of a spec as JSON. etcd holds 1.5 MiB with annotations (at most 256 KiB) and status."""
MAX_METADATA_BYTES = 65_536
"""Of the labels, finalizers and owners as JSON; the API server bounds the annotations."""

_PUNCTUATION = 3
"""Bytes about a key or a text: two quotes, and a colon or comma."""
_METADATA = ("labels", "finalizers", "ownerReferences")


def out_of_bounds(document: Mapping[str, Any]) -> list[Violation]:
    """Where an object is too deep or too large; empty where it is neither. Walks without recursion."""
    return [explained(fault) for fault in _faults(document)]


def _faults(document: Mapping[str, Any]) -> Iterator[Fault]:
    spec, metadata = (_mapping(document.get(name)) for name in ("spec", "metadata"))
    too_deep = [(name, levels) for name, value in spec.items() if (levels := depth(value)) > MAX_DEPTH]
    for name, levels in too_deep:
        yield Fault(path=("spec", name), message=f"has {levels} levels, at most {MAX_DEPTH} are allowed")
    sizes = {str(name): _bytes(name) + _bytes(value) for name, value in spec.items()}
    if (total := sum(sizes.values())) > MAX_SPEC_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        message = (
            f"has {total} bytes as JSON, {sizes[largest]} of them in {largest}; at most {MAX_SPEC_BYTES} are allowed:"
            " move large contents to the image, a volume or a ConfigMap"
        )
        yield Fault(path=("spec",), message=message)
    kept = {name: metadata.get(name) for name in _METADATA}
    if (total := _bytes(kept)) > MAX_METADATA_BYTES:
        message = f"{', '.join(_METADATA)} have {total} bytes as JSON; at most {MAX_METADATA_BYTES} are allowed"
        yield Fault(path=("metadata",), message=message)


def _bytes(value: Any) -> int:
    """The bytes of a value as compact JSON, but for escapes."""
    total = 0
    stack = [value]
    while stack:
        current = stack.pop()
        if isinstance(current, str):
            total += len(current.encode("utf-8", "surrogatepass")) + _PUNCTUATION
        elif isinstance(current, Mapping | list):
            total += _PUNCTUATION
            stack.extend(_children(current))
            stack.extend(current if isinstance(current, Mapping) else ())
        else:
            total += len(str(current)) + 1
    return total


def _children(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

"""A kubelet's device plugin for GPUs that are not there: `nvidia.com/gpu` on a real node.

`python -m e2e.node.device_plugin GPUS` registers with the kubelet (API v1beta1) and gives a container that requests
GPUs the variable NVIDIA_VISIBLE_DEVICES, as NVIDIA's plugin does. It runs inside the node's namespaces. When kubelet is
started again it removes the sockets of all plugins; this one then registers anew.

The messages are those of k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto, as far as they are used here; protobuf
skips the fields that are not declared.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from operator import methodcaller
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from e2e.node.settings import GPU

FOLDER = Path("/var/lib/kubelet/device-plugins")
VERSION = "v1beta1"
_SOCKET = "stoker-gpu.sock"
_CHECK_SECONDS = 0.2

_Field = descriptor_pb2.FieldDescriptorProto
_FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "Empty": {},
    "DevicePluginOptions": {},
    "RegisterRequest": {"version": (1, "string"), "endpoint": (2, "string"), "resource_name": (3, "string")},
    "Device": {"ID": (1, "string"), "health": (2, "string")},
    "ListAndWatchResponse": {"devices": (1, "repeated Device")},
    "ContainerAllocateRequest": {"devices_ids": (1, "repeated string")},
    "AllocateRequest": {"container_requests": (1, "repeated ContainerAllocateRequest")},
    "Variable": {"key": (1, "string"), "value": (2, "string")},  # an entry of map<string, string>
    "ContainerAllocateResponse": {"envs": (1, "repeated Variable")},
    "AllocateResponse": {"container_responses": (1, "repeated ContainerAllocateResponse")},
}


def _messages() -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="deviceplugin.proto", package=VERSION, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            *repeated, kind = kind.split()
            entry = message.field.add(
                name=field, number=number, label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            )
            if kind == "string":
                entry.type = _Field.TYPE_STRING
            else:
                entry.type, entry.type_name = _Field.TYPE_MESSAGE, f".{VERSION}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{VERSION}.{name}")) for name in _FIELDS}


_MESSAGES = _messages()
_serialize = methodcaller("SerializeToString")


def new(name: str, **fields: Any) -> Any:
    """A message of the API."""
    return _MESSAGES[name](**fields)


class DevicePlugin:
    """Serves kubelet's questions about so many GPUs."""

    def __init__(self, gpus: int) -> None:
        self._ids = [f"GPU-{number}" for number in range(gpus)]
        self._ended = threading.Event()

    def handlers(self) -> Any:
        """What gRPC calls for the service DevicePlugin."""
        return grpc.method_handlers_generic_handler(
            f"{VERSION}.DevicePlugin",
            {
                "GetDevicePluginOptions": _unary("Empty", lambda *_: new("DevicePluginOptions")),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._list_and_watch, _MESSAGES["Empty"].FromString, _serialize
                ),
                "Allocate": _unary("AllocateRequest", self._allocate),
            },
        )

    def end(self) -> None:
        """Close the stream to kubelet."""
        self._ended.set()

    def _list_and_watch(self, *_: Any) -> Iterator[Message]:
        """All GPUs, once: none of them ever changes."""
        yield new("ListAndWatchResponse", devices=[new("Device", ID=one, health="Healthy") for one in self._ids])
        self._ended.wait()

    @staticmethod
    def _allocate(request: Any, _: Any) -> Message:
        responses = []
        for container in request.container_requests:
            variable = new("Variable", key="NVIDIA_VISIBLE_DEVICES", value=",".join(sorted(container.devices_ids)))
            responses.append(new("ContainerAllocateResponse", envs=[variable]))
        answer: Message = new("AllocateResponse", container_responses=responses)
        return answer


def _unary(request: str, answer: Callable[[Any, Any], Message]) -> Any:
    return grpc.unary_unary_rpc_method_handler(answer, _MESSAGES[request].FromString, _serialize)


def serve(gpus: int) -> None:
    """Register, and return when kubelet has removed the socket."""
    socket = FOLDER / _SOCKET
    socket.unlink(missing_ok=True)
    plugin = DevicePlugin(gpus)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers((plugin.handlers(),))
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    with grpc.insecure_channel(f"unix://{FOLDER / 'kubelet.sock'}") as channel:
        register = channel.unary_unary(f"/{VERSION}.Registration/Register", _serialize, _MESSAGES["Empty"].FromString)
        request = new("RegisterRequest", version=VERSION, endpoint=_SOCKET, resource_name=GPU)
        register(request, wait_for_ready=True)
    print(f"registered {gpus} of {GPU}", flush=True)
    while socket.exists():
        time.sleep(_CHECK_SECONDS)
    plugin.end()
    server.stop(grace=None)


def main() -> None:
    """Serve until killed."""
    while True:
        serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()

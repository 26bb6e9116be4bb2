"""Neural networks as loads: what a training step of each asks of a GPU, its links and its host."""

from dataclasses import dataclass

from stoker.findings.vocabulary import Framework


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A model with its usual data.

    parameters: millions. gflop: of one sample's forward pass. kernels: of one training step, optimizer included.
    activations: MiB a sample while training. intensity: FLOP for each byte of device memory. efficiency: of the peak
    that its large kernels reach. device_bytes: what one sample brings to the GPU. stored_bytes: what it is on storage.
    cpu: seconds of one core to decode and augment a sample.
    """

    name: str
    parameters: float
    gflop: float
    kernels: int
    activations: float
    intensity: float
    efficiency: float
    device_bytes: float
    stored_bytes: float
    cpu: float
    framework: Framework = Framework.PYTORCH


RESNET50 = Network(
    name="resnet50",
    parameters=25.6,
    gflop=4.1,
    kernels=1100,
    activations=92,
    intensity=45,
    efficiency=0.3,
    device_bytes=602e3,
    stored_bytes=110e3,
    cpu=8e-3,
)
SWIN_BASE = Network(
    name="swin-base",
    parameters=88,
    gflop=15.4,
    kernels=3600,
    activations=340,
    intensity=60,
    efficiency=0.22,
    device_bytes=602e3,
    stored_bytes=110e3,
    cpu=9e-3,
)
VIT_LARGE = Network(
    name="vit-large",
    parameters=304,
    gflop=61.6,
    kernels=2600,
    activations=260,
    intensity=110,
    efficiency=0.42,
    device_bytes=602e3,
    stored_bytes=110e3,
    cpu=9e-3,
)
UNET3D = Network(
    name="unet3d",
    parameters=31,
    gflop=950,
    kernels=900,
    activations=5200,
    intensity=40,
    efficiency=0.35,
    device_bytes=33e6,
    stored_bytes=45e6,
    cpu=0.25,
)
VIDEO = Network(
    name="video-r3d",
    parameters=33,
    gflop=40,
    kernels=1100,
    activations=380,
    intensity=40,
    efficiency=0.33,
    device_bytes=19.3e6,
    stored_bytes=1.6e6,
    cpu=0.11,
)
# sequences of 128 tokens: 24 layers of s*b*h*(34 + 5*a*s/h) bytes (Korthikanti et al., 2022), half as much again kept
BERT_LARGE = Network(
    name="bert-large",
    parameters=340,
    gflop=87,
    kernels=4800,
    activations=215,
    intensity=90,
    efficiency=0.42,
    device_bytes=3e3,
    stored_bytes=1e3,
    cpu=2e-4,
)
GPT2_XL = Network(
    name="gpt2-xl",
    parameters=1558,
    gflop=3200,
    kernels=9500,
    activations=3300,
    intensity=130,
    efficiency=0.42,
    device_bytes=8e3,
    stored_bytes=5e3,
    cpu=2e-4,
)
GPT2 = Network(
    name="gpt2-medium",
    parameters=355,
    gflop=730,
    kernels=5200,
    activations=1100,
    intensity=110,
    efficiency=0.4,
    device_bytes=8e3,
    stored_bytes=5e3,
    cpu=2e-4,
)
LLAMA_7B = Network(
    name="llama-7b",
    parameters=6738,
    gflop=27600,
    kernels=7600,
    activations=9000,
    intensity=150,
    efficiency=0.48,
    device_bytes=16e3,
    stored_bytes=9e3,
    cpu=3e-4,
)
SPEECH = Network(
    name="conformer",
    parameters=120,
    gflop=58,
    kernels=5200,
    activations=170,
    intensity=60,
    efficiency=0.35,
    device_bytes=480e3,
    stored_bytes=320e3,
    cpu=24e-3,
)
LSTM = Network(
    name="lstm",
    parameters=42,
    gflop=3.2,
    kernels=5600,
    activations=9,
    intensity=25,
    efficiency=0.2,
    device_bytes=4e3,
    stored_bytes=2e3,
    cpu=4e-4,
)
GRAPH = Network(
    name="graph-network",
    parameters=8,
    gflop=1.1,
    kernels=420,
    activations=14,
    intensity=12,
    efficiency=0.15,
    device_bytes=2.4e6,
    stored_bytes=60e3,
    cpu=6e-3,
)
TABULAR = Network(
    name="tabular-mlp",
    parameters=4,
    gflop=0.008,
    kernels=130,
    activations=0.06,
    intensity=20,
    efficiency=0.2,
    device_bytes=2.4e3,
    stored_bytes=1.6e3,
    cpu=3e-5,
)
RANKING = Network(
    name="ranking",
    parameters=900,
    gflop=0.02,
    kernels=260,
    activations=0.12,
    intensity=4,
    efficiency=0.2,
    device_bytes=14e3,
    stored_bytes=9e3,
    cpu=6e-5,
    framework=Framework.TENSORFLOW,
)
EFFICIENTNET = Network(
    name="efficientnet",
    parameters=30,
    gflop=9.9,
    kernels=1500,
    activations=190,
    intensity=25,
    efficiency=0.22,
    device_bytes=1.7e6,
    stored_bytes=140e3,
    cpu=13e-3,
    framework=Framework.TENSORFLOW,
)

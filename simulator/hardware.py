"""GPUs as their data sheets and measurements describe them."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """One GPU model.

    name: the node's label. memory: MiB. tensor, fp32: dense TFLOP/s of mixed-precision and of plain single-precision
    training. dram: GB/s. pinned, pageable: GB/s from the host over PCIe; a pageable copy is staged by one CPU thread.
    bus: GB/s of a ring all-reduce inside a node. idle, context, limit: watts without a process, with a CUDA context
    and no work, at most. clock: MHz. kernel_floor: seconds that even an empty kernel occupies the device. window:
    seconds that its utilization counter looks back. published_context: `context` is among the figures that people
    have published.
    """

    name: str
    memory: int
    tensor: float
    fp32: float
    dram: float
    pinned: float
    pageable: float
    bus: float
    idle: float
    context: float
    limit: float
    clock: float
    kernel_floor: float
    window: float
    nvlink: bool = True
    tf32: bool = False
    published_context: bool = False

    def power(self, engine: float, sm: float, tensor: float, dram: float) -> float:
        """Watts of a device with a context at these activities (0..1).

        A kernel that spins costs a tenth of the range, full matrix work with its memory traffic nearly all of it.
        """
        load = 0.08 * engine + 0.25 * sm + 0.9 * tensor + 0.4 * dram
        return self.context + (self.limit - self.context) * min(1.0, load)


V100 = GpuModel(
    name="Tesla-V100-SXM2-32GB",
    memory=32768,
    tensor=125,
    fp32=15.7,
    dram=900,
    pinned=12,
    pageable=4.5,
    bus=120,
    idle=40,
    context=55,
    limit=300,
    clock=1530,
    kernel_floor=6e-6,
    window=1 / 6,
)
A100 = GpuModel(
    name="NVIDIA-A100-SXM4-80GB",
    memory=81920,
    tensor=312,
    fp32=156,
    dram=2039,
    pinned=24,
    pageable=6,
    bus=230,
    idle=54,
    context=80,
    limit=400,
    clock=1410,
    kernel_floor=4.5e-6,
    window=1.0,
    tf32=True,
    published_context=True,
)
A100_40 = replace(A100, name="NVIDIA-A100-SXM4-40GB", memory=40960, dram=1555, idle=48, context=74)
H100 = GpuModel(
    name="NVIDIA-H100-80GB-HBM3",
    memory=81559,
    tensor=989,
    fp32=494,
    dram=3350,
    pinned=50,
    pageable=8,
    bus=370,
    idle=72,
    context=122,
    limit=700,
    clock=1980,
    kernel_floor=3.5e-6,
    window=0.5,
    tf32=True,
    published_context=True,
)
L40S = GpuModel(
    name="NVIDIA-L40S",
    memory=46068,
    tensor=362,
    fp32=183,
    dram=864,
    pinned=24,
    pageable=7,
    bus=12,
    idle=36,
    context=102,
    limit=350,
    clock=2520,
    kernel_floor=4e-6,
    window=1.0,
    nvlink=False,
    tf32=True,
    published_context=True,
)
T4 = GpuModel(
    name="Tesla-T4",
    memory=15360,
    tensor=65,
    fp32=8.1,
    dram=320,
    pinned=12,
    pageable=4,
    bus=5,
    idle=10,
    context=27,
    limit=70,
    clock=1590,
    kernel_floor=6e-6,
    window=1.0,
    nvlink=False,
)

DATACENTRE = (V100, A100, A100_40, H100)

"""What the GPU models of the simulation look like at rest and at work."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A GPU model: `memory` in MiB, powers in watts, clocks in MHz.

    `context` is the power at no load once a CUDA context exists, which is well above `idle`.
    """

    memory: int
    idle: float
    context: float
    limit: float
    clock: int
    idle_clock: int = 345


# By the value of the label nvidia.com/gpu.product. Limits, clocks and memory as in the vendor's data sheets; the powers
# at rest as people have measured and published them (H100, A100, L40S), the others in proportion.
PRODUCTS = {
    "NVIDIA-H100-80GB-HBM3": Product(memory=81559, idle=72, context=122, limit=700, clock=1980),
    "NVIDIA-A100-SXM4-80GB": Product(memory=81920, idle=54, context=80, limit=400, clock=1410, idle_clock=210),
    "NVIDIA-A100-SXM4-40GB": Product(memory=40960, idle=48, context=74, limit=400, clock=1410, idle_clock=210),
    "NVIDIA-L40S": Product(memory=46068, idle=36, context=102, limit=350, clock=2520, idle_clock=210),
    "Tesla-V100-SXM2-32GB": Product(memory=32768, idle=40, context=55, limit=300, clock=1530, idle_clock=135),
    "Tesla-T4": Product(memory=15360, idle=10, context=27, limit=70, clock=1590, idle_clock=300),
}


def product_named(name: str) -> Product:
    """The model of that name; an unknown one looks like an H100."""
    return PRODUCTS.get(name, PRODUCTS["NVIDIA-H100-80GB-HBM3"])

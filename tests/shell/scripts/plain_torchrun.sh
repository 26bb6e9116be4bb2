#!/bin/bash
set -euo pipefail
export NCCL_DEBUG=INFO
cd /workspace
torchrun --nproc_per_node=8 train.py --config configs/base.yaml

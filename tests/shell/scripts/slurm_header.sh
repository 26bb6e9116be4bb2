#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gres=gpu:8
# torchrun --nproc_per_node=2 old.py
# python -m torch.distributed.launch --nproc_per_node=4 older.py
export OMP_NUM_THREADS=4
torchrun --nproc_per_node=4 train.py

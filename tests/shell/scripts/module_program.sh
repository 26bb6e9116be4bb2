torchrun --nproc-per-node=8 -m axolotl.cli.train config.yml
python -m torch.distributed.run --nproc_per_node=auto --no-python ./binary

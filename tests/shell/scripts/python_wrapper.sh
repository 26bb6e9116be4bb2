python $(which torchrun) --nproc_per_node=4 train.py
python -m accelerate.commands.launch --num_processes 4 --multi_gpu train.py
python -um torch.distributed.launch --nproc_per_node=4 train.py

torchrun --nnodes=1:4 --nproc_per_node=gpu --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:29400 --rdzv-id=7 train.py

NGPU=$(nvidia-smi -L | wc -l)
torchrun --nproc_per_node=$NGPU train.py
N=`nvidia-smi --query-gpu=name --format=csv,noheader | wc -l`
deepspeed --num_gpus $N sft.py
python -m torch.distributed.launch --nproc_per_node=$(python -c 'import torch; print(torch.cuda.device_count())') eval.py

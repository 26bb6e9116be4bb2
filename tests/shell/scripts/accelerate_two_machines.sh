accelerate launch --multi_gpu --num_machines=2 --num_processes=16 --machine_rank=$STOKER_NODE_RANK \
  --main_process_ip=$MASTER_ADDR --main_process_port=29500 --mixed_precision=fp16 \
  train.py --batch_size 4

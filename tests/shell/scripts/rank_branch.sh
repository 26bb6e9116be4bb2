if [ "$STOKER_NODE_RANK" = "0" ]; then
  python prepare.py
  touch /shared/ready
else
  while [ ! -f /shared/ready ]; do sleep 10; done
fi
torchrun --nnodes=2 --node_rank=$STOKER_NODE_RANK --nproc_per_node=8 --master_addr=$MASTER_ADDR train.py

#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
# Change for multinode config
MASTER_ADDR=localhost
MASTER_PORT=6000
NNODES=1
NODE_RANK=0
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))

CHECKPOINT_PATH=$1
DATA_ARGS="
    --data-path /data/corpus \
    --split 949,50,1
"
DISTRIBUTED_ARGS="
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $NNODES \
    --node_rank $NODE_RANK \
    --master_addr $MASTER_ADDR \
    --master_port $MASTER_PORT
"
GPT_ARGS=(
    --num-layers 24
    --hidden-size 1024
    --tensor-model-parallel-size 2
    --pipeline-model-parallel-size 1   # none
)

torchrun $DISTRIBUTED_ARGS pretrain_gpt.py \
    "${GPT_ARGS[@]}" \
    $DATA_ARGS \
    --distributed-backend nccl

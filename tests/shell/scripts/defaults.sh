NUM_GPUS=${NUM_GPUS:-4}
NNODES=${NNODES:=1}
PORT=${PORT:-$((20000 + 9501))}
CONFIG=$1
python -m torch.distributed.launch \
    --nproc_per_node=$NUM_GPUS \
    --nnodes=$NNODES \
    --master_port=$PORT \
    $(dirname "$0")/train.py $CONFIG --launcher pytorch ${@:3}

CONFIG=${1:-config.yaml}
GPUS=${2:-2}
torchrun --nproc_per_node $GPUS tools/train.py $CONFIG

while [[ $# -gt 0 ]]; do
  case $1 in
    --gpus) GPUS="$2"; shift 2 ;;
    *) shift ;;
  esac
done
GPUS=${GPUS:-2}
torchrun --nproc_per_node $GPUS train.py

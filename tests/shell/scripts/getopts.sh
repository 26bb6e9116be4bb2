while getopts "g:c:" opt; do
  case $opt in
    g) GPUS=$OPTARG ;;
    c) CONFIG=$OPTARG ;;
  esac
done
GPUS=${GPUS:-8}
torchrun --nproc_per_node=$GPUS train.py --config $CONFIG

if [ -z "$NGPUS" ]; then
  NGPUS=2
fi
[ -z "${NNODES}" ] && NNODES=1
torchrun --nproc_per_node=$NGPUS --nnodes=$NNODES train.py

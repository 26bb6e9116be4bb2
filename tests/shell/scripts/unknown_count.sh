torchrun --nproc_per_node=$GPUS_FROM_ELSEWHERE train.py
source ./cluster_env.sh
torchrun --nproc_per_node=${NGPUS:-4} train2.py
torchrun $DIST_ARGS train3.py

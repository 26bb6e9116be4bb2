GPUS=4
CMD="torchrun --nproc_per_node=${GPUS} --master_port 29501"
CMD="$CMD train.py"
CMD+=" --lr 0.1"
echo $CMD
$CMD

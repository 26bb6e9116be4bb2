export CUDA_VISIBLE_DEVICES=0,1,2,3
NUM=$(echo $CUDA_VISIBLE_DEVICES | tr ',' '\n' | wc -l)
IFS=',' read -ra IDS <<< "$CUDA_VISIBLE_DEVICES"
torchrun --nproc_per_node=$NUM --master_port 1234 a.py
torchrun --nproc_per_node=${#IDS[@]} b.py

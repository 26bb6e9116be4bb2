CUDA_VISIBLE_DEVICES="" python tokenize_data.py
torchrun --nproc_per_node=8 train.py

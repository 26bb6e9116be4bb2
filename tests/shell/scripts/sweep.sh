for lr in 1e-3 1e-4; do
  for seed in {1..3}; do
    torchrun --nproc_per_node=8 train.py --lr $lr --seed $seed
  done
done

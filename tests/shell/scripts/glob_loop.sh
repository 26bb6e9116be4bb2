for config in configs/*.yaml; do
  echo "training $config"
  torchrun --nproc_per_node=2 train.py --config "$config"
done

for i in $(seq 0 3); do
  GPU=$((i % 2))
  (
    export CUDA_VISIBLE_DEVICES=$GPU
    python run.py --seed $i
  ) &
done
wait

NUM_SHARDS=4
for ((i = 0; i < NUM_SHARDS; i++)); do
  CUDA_VISIBLE_DEVICES=$i \
  nohup python embed.py --index=$i &
  pids[${i}]=$!
done
for pid in ${pids[*]}; do
    wait $pid
done

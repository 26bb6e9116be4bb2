for gpu in 0 1 2 3 4 5 6 7; do
    CUDA_VISIBLE_DEVICES=$gpu python sample.py --shard $gpu --of 8 > log_$gpu.txt 2>&1 &
done
wait
python merge.py

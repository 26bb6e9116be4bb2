deepspeed --include="localhost:0,1,2,3" --master_port=61000 train.py --deepspeed_config ds.json
deepspeed --num_nodes=1 --num_gpus 8 --module pkg.train

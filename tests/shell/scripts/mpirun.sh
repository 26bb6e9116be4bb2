mpirun --allow-run-as-root -np 8 -H localhost:8 -bind-to none -map-by slot \
    -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH \
    -mca pml ob1 -mca btl ^openib \
    python tf_cnn_benchmarks.py --batch_size=64 --variable_update=horovod

mpirun --map-by ppr:4:node --hostfile /etc/mpi/hostfile python train.py
mpiexec -n 4 python small.py

Rscript -e 'install.packages("glmnet")'
Rscript fit.R --input data.csv

export SPARK_HOME=/opt/spark
$SPARK_HOME/bin/spark-submit --master local[8] --class org.example.Count app.jar

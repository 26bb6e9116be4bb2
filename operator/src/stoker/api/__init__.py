"""What users and the operator write as YAML: DLJob, UtilizationPolicy, their schemas and bounds."""

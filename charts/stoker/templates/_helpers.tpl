{{- define "stoker.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "stoker.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "stoker.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "stoker.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Labels of everything; call with a dict of root and component. */ -}}
{{- define "stoker.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{ include "stoker.selectorLabels" . }}
{{- end -}}

{{- define "stoker.selectorLabels" -}}
app.kubernetes.io/name: {{ include "stoker.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "stoker.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* The user name of the controller's ServiceAccount. */ -}}
{{- define "stoker.controllerUser" -}}
{{- printf "system:serviceaccount:%s:%s-controller" .Release.Namespace (include "stoker.fullname" .) -}}
{{- end -}}

{{- /* The user name of the admission process's ServiceAccount. */ -}}
{{- define "stoker.admissionUser" -}}
{{- printf "system:serviceaccount:%s:%s-admission" .Release.Namespace (include "stoker.fullname" .) -}}
{{- end -}}

{{- /* Whether the release makes and renews the webhook's certificate itself: "true" or empty. */ -}}
{{- define "stoker.ownCertificate" -}}
{{- $certificate := .Values.admission.certificate -}}
{{- if and $certificate.existingSecret $certificate.certManager.enabled -}}
{{- fail "admission.certificate.existingSecret: with certManager.enabled cert-manager writes the Secret, so leave this empty" -}}
{{- end -}}
{{- if and .Values.admission.caBundle (not $certificate.existingSecret) -}}
{{- fail "admission.caBundle: is for a certificate of your own, so admission.certificate.existingSecret must name its Secret" -}}
{{- end -}}
{{- if not (or $certificate.existingSecret $certificate.certManager.enabled) -}}
true
{{- end -}}
{{- end -}}

{{- /* A duration such as 1h30m in seconds. */ -}}
{{- define "stoker.seconds" -}}
{{- $hours := regexFind "[0-9]+h" . | trimSuffix "h" | default "0" | int -}}
{{- $minutes := regexFind "[0-9]+m" . | trimSuffix "m" | default "0" | int -}}
{{- $seconds := regexFind "[0-9]+s" . | trimSuffix "s" | default "0" | int -}}
{{- add (mul $hours 3600) (mul $minutes 60) $seconds -}}
{{- end -}}

{{- /* Values that no schema can judge: fails with what is wrong. */ -}}
{{- define "stoker.check" -}}
{{- $controller := .Values.controller -}}
{{- if gt (include "stoker.seconds" $controller.scrapeInterval | int) 60 -}}
{{- fail (printf "controller.scrapeInterval: %s is more than 1m: with fewer samples idleness can't be told from a gap" $controller.scrapeInterval) -}}
{{- end -}}
{{- if lt (include "stoker.seconds" $controller.scrapeInterval | int) 1 -}}
{{- fail "controller.scrapeInterval: must be at least 1s" -}}
{{- end -}}
{{- if lt (include "stoker.seconds" $controller.scanInterval | int) 1 -}}
{{- fail "controller.scanInterval: must be at least 1s" -}}
{{- end -}}
{{- if lt (include "stoker.seconds" $controller.minimumWarningGrace | int) 60 -}}
{{- fail (printf "controller.minimumWarningGrace: %s is less than 1m, the shortest warningGrace that a policy may have" $controller.minimumWarningGrace) -}}
{{- end -}}
{{- $admission := .Values.admission -}}
{{- $budget := $admission.podDisruptionBudget -}}
{{- if and $budget.enabled (gt (int $admission.replicas) 1) (not (kindIs "string" $budget.minAvailable)) (ge (int $budget.minAvailable) (int $admission.replicas)) -}}
{{- fail (printf "admission.podDisruptionBudget.minAvailable: %v of %v replicas would let no node be drained: it must be less than admission.replicas" $budget.minAvailable $admission.replicas) -}}
{{- end -}}
{{- if and $admission.sessionWebhook.enabled (not $admission.clientCA) (not $admission.sessionWebhook.trustNetwork) -}}
{{- fail "admission.sessionWebhook.enabled: needs admission.clientCA, or whoever reaches the webhook's port can hold any job as if somebody worked in it; where nobody but the API server reaches it, set admission.sessionWebhook.trustNetwork" -}}
{{- end -}}
{{- if and $admission.clientNames (not $admission.clientCA) -}}
{{- fail "admission.clientNames: needs admission.clientCA" -}}
{{- end -}}
{{- range $key, $_ := .Values.commonLabels -}}
{{- if or (hasPrefix "app.kubernetes.io/" $key) (hasPrefix "helm.sh/" $key) -}}
{{- fail (printf "commonLabels: %s is set by the chart" $key) -}}
{{- end -}}
{{- end -}}
{{- range list "kube-system" .Release.Namespace -}}
{{- if has . $.Values.watchNamespaces -}}
{{- fail (printf "watchNamespaces: the operator does not act in %s: name the namespaces in which DLJobs are created" .) -}}
{{- end -}}
{{- end -}}
{{- $metrics := .Values.metrics -}}
{{- if and $metrics.podMonitor.enabled $metrics.authentication (not $metrics.podMonitor.tokenSecret.name) -}}
{{- fail "metrics.podMonitor.tokenSecret.name: with metrics.authentication a PodMonitor needs a Secret with a reader's token; a ServiceMonitor (metrics.serviceMonitor) shows that of Prometheus itself" -}}
{{- end -}}
{{- if and $metrics.serviceMonitor.enabled (not $metrics.service.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled: needs metrics.service.enabled" -}}
{{- end -}}
{{- end -}}

{{- define "stoker.certificateSecret" -}}
{{- default (printf "%s-admission-tls" (include "stoker.fullname" .)) .Values.admission.certificate.existingSecret -}}
{{- end -}}

{{- /* Labels and annotations of a component's pods; call with a dict of root, component, values (of the component) and annotations, the chart's own, which win. */ -}}
{{- define "stoker.podMetadata" -}}
labels: {{ merge (include "stoker.labels" . | fromYaml) .values.podLabels | toYaml | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .values.podAnnotations }}
annotations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* What both Deployments' pods share; call with a dict of root, component and values (of the component). */ -}}
{{- define "stoker.podSpec" -}}
serviceAccountName: {{ include "stoker.fullname" .root }}-{{ .component }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.spread }}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: {{ $.values.spread }}
    labelSelector:
      matchLabels: {{ include "stoker.selectorLabels" $ | nindent 8 }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "stoker.containerBasics" -}}
image: {{ include "stoker.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{ toYaml .values.resources | nindent 2 }}
# A start on a busy node takes a minute: until it answers once, up to five minutes, nothing else is asked of it.
startupProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 2
  failureThreshold: 150
  timeoutSeconds: 3
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 10
  timeoutSeconds: 3
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
  timeoutSeconds: 3
{{- end -}}

{{- /* Annotations of a pod that serves metrics; call with a dict of root and values (of the component). */ -}}
{{- define "stoker.scrapeAnnotations" -}}
{{- if and .root.Values.metrics.scrapeAnnotations (not .root.Values.metrics.authentication) -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .root.Values.metrics.port | quote }}
prometheus.io/path: /metrics
{{- with .root.Values.metrics.certificateSecret }}
prometheus.io/scheme: https
{{- end }}
{{- end -}}
{{- end -}}

{{- /* The options of /metrics. */ -}}
{{- define "stoker.metricsArgs" -}}
- --metrics-port={{ .Values.metrics.port }}
- {{ if .Values.metrics.authentication }}--metrics-authentication{{ else }}--no-metrics-authentication{{ end }}
{{- with .Values.metrics.certificateSecret }}
- --metrics-certificate-folder=/metrics-certificate
{{- end }}
{{- end -}}

{{- /* The log, and what the release's author adds to the environment. */ -}}
{{- define "stoker.env" -}}
- {name: STOKER_LOG_FORMAT, value: {{ .Values.logFormat }}}
- {name: STOKER_LOG_LEVEL, value: {{ .Values.logLevel }}}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* What the controller's account may do in each namespace whose DLJobs it controls. */ -}}
{{- define "stoker.controllerRules" -}}
- apiGroups: [stoker.dev]
  resources: [dljobs]
  verbs: [get, list, watch, delete]
- apiGroups: [stoker.dev]
  resources: [dljobs/status]
  verbs: [update]
# Lets the Job's ownerReference block its owner's deletion where the cluster checks that.
- apiGroups: [stoker.dev]
  resources: [dljobs/finalizers]
  verbs: [update]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
# Of a Job that Kueue manages, the pods are taken away and given back by spec.active of its Workload.
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [list, patch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, create]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- if .Values.controller.readLogs }}
# What the trainers log tells what they do; only where a policy asks for it (spec.analysis.readLogs).
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end }}
{{- include "stoker.workloadRules" . }}
{{ include "stoker.eventRules" . }}
{{- end -}}

{{- /* What watching workloads besides DLJobs needs: the pods with GPUs, and the objects above them of each kind that is enabled. */ -}}
{{- define "stoker.workloadRules" -}}
{{- $above := dict
  "Pod" (list)
  "Job" (list "batch/jobs")
  "CronJob" (list "batch/jobs" "batch/cronjobs")
  "Deployment" (list "apps/replicasets" "apps/deployments")
  "StatefulSet" (list "apps/statefulsets")
  "JobSet" (list "batch/jobs" "jobset.x-k8s.io/jobsets")
  "TrainJob" (list "batch/jobs" "jobset.x-k8s.io/jobsets" "trainer.kubeflow.org/trainjobs")
  "PyTorchJob" (list "kubeflow.org/pytorchjobs")
  "TFJob" (list "kubeflow.org/tfjobs")
  "MPIJob" (list "batch/jobs" "kubeflow.org/mpijobs")
  "JAXJob" (list "kubeflow.org/jaxjobs")
  "PaddleJob" (list "kubeflow.org/paddlejobs")
  "XGBoostJob" (list "kubeflow.org/xgboostjobs")
  "RayCluster" (list "ray.io/rayclusters")
  "RayJob" (list "batch/jobs" "ray.io/rayclusters" "ray.io/rayjobs")
  "RayService" (list "ray.io/rayclusters" "ray.io/rayservices")
  "LeaderWorkerSet" (list "apps/statefulsets" "leaderworkerset.x-k8s.io/leaderworkersets")
  "Notebook" (list "apps/statefulsets" "kubeflow.org/notebooks")
  "InferenceService" (list "apps/replicasets" "apps/deployments" "serving.kserve.io/inferenceservices")
  "VolcanoJob" (list "batch.volcano.sh/jobs") }}
{{- $read := dict }}
{{- range .Values.workloads.kinds }}
{{- range get $above . }}
{{- $_ := set $read . true }}
{{- end }}
{{- end }}
{{- if .Values.workloads.kinds }}
# Reads the pods with GPUs, and writes GPUWorkloads about what they belong to.
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
- apiGroups: [stoker.dev]
  resources: [gpuworkloads]
  verbs: [list, watch, create, delete]
- apiGroups: [stoker.dev]
  resources: [gpuworkloads/status]
  verbs: [update]
# The metadata of what owns a pod: who is the topmost.
{{- range keys $read | sortAlpha }}
{{- $part := splitn "/" 2 . }}
{{- if ne . "batch/jobs" }}
- apiGroups: [{{ $part._0 }}]
  resources: [{{ $part._1 }}]
  verbs: [get]
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "stoker.eventRules" -}}
# Reads why the Job controller could not create pods, and writes the job's own events.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [get, list, create, patch]
{{- end -}}

{{- /* What the report's account may do. */ -}}
{{- define "stoker.reportRules" -}}
# Of the DLJobs that still exist, the report shows the change that each finding proposes.
- apiGroups: [stoker.dev]
  resources: [dljobs]
  verbs: [list]
{{- end -}}

{{- /* What the admission account may do in each namespace whose DLJobs it reviews; empty unless it notes sessions. */ -}}
{{- define "stoker.admissionRules" -}}
{{- if .Values.admission.sessionWebhook.enabled -}}
# Finds the job whose pod somebody opened a session in, and notes the time in its status.
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
- apiGroups: [stoker.dev]
  resources: [dljobs/status]
  verbs: [patch]
{{- end -}}
{{- end -}}

{{- /* A Role in a namespace, bound to a component's account; call with a dict of root, namespace, component and rules. */ -}}
{{- define "stoker.roleIn" -}}
{{- $name := printf "%s-%s" (include "stoker.fullname" .root) .component -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ .namespace }}
  labels: {{ include "stoker.labels" . | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ .namespace }}
  labels: {{ include "stoker.labels" . | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ .root.Release.Namespace }}}
{{- end -}}

{{- /* The annotations of what `helm test` creates; call with a dict of weight and policy. */ -}}
{{- define "stoker.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: {{ .policy }}
{{- end -}}

{{- /* The namespaces whose DLJobs and sessions the webhook reviews, as a namespaceSelector. */ -}}
{{- define "stoker.webhookNamespaces" -}}
matchExpressions:
  {{- with .Values.watchNamespaces }}
  - key: kubernetes.io/metadata.name
    operator: In
    values: {{ uniq . | toJson }}
  {{- end }}
  # A webhook that is asked about its own namespace, or about the system's, could keep its cluster from being repaired.
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ concat (list "kube-system" .Release.Namespace) .Values.admission.excludedNamespaces | uniq | toJson }}
{{- end -}}

{{- define "stoker.prometheusFolder" -}}
/etc/stoker/prometheus
{{- end -}}

{{- /* The keys of the Secret that are mounted, as items of its volume; the file's name is what --prometheus-*-file is called. */ -}}
{{- define "stoker.prometheusFiles" -}}
{{- $secret := .Values.prometheus.secret -}}
{{- if and $secret.passwordKey (not .Values.prometheus.username) }}
{{- fail "prometheus.username: the user whose password prometheus.secret.passwordKey is" }}
{{- end }}
{{- if and $secret.privateKeyKey (not $secret.certKey) }}
{{- fail "prometheus.secret.certKey: the key of the certificate that prometheus.secret.privateKeyKey belongs to" }}
{{- end }}
{{- if and $secret.name (not (or $secret.tokenKey $secret.passwordKey $secret.caKey $secret.certKey)) }}
{{- fail "prometheus.secret: say which of its keys hold what: tokenKey, passwordKey, caKey, certKey, privateKeyKey" }}
{{- end }}
{{- if and (or $secret.caKey $secret.certKey) (hasPrefix "http://" .Values.prometheus.url) }}
{{- fail "prometheus.url: prometheus.secret.caKey and certKey need https" }}
{{- end }}
{{- range $file, $key := dict "token" $secret.tokenKey "password" $secret.passwordKey "ca" $secret.caKey "cert" $secret.certKey "key" $secret.privateKeyKey }}
{{- if $key }}
{{- if not $secret.name }}
{{- fail "prometheus.secret.name: the name of the Secret that has the keys" }}
{{- end }}
- {key: {{ $key | quote }}, path: {{ $file | quote }}}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The options by which a command reaches Prometheus. */ -}}
{{- define "stoker.prometheusArgs" -}}
{{- $prometheus := .Values.prometheus -}}
- --prometheus-url={{ required "prometheus.url: the address of a Prometheus" $prometheus.url }}
- --prometheus-profile={{ $prometheus.profile }}
- --prometheus-timeout={{ $prometheus.timeout }}
{{- with $prometheus.metricPrefix }}
- --prometheus-metric-prefix={{ . }}
{{- end }}
{{- with $prometheus.username }}
- {{ printf "--prometheus-username=%s" . | quote }}
{{- end }}
{{- range $prometheus.matchers }}
- {{ printf "--prometheus-matcher=%s" . | quote }}
{{- end }}
{{- range $name, $value := $prometheus.headers }}
- {{ printf "--prometheus-header=%s: %s" $name $value | quote }}
{{- end }}
{{- if $prometheus.serviceAccountToken }}
- --prometheus-token-file=/var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
{{- range include "stoker.prometheusFiles" . | fromYamlArray }}
- --prometheus-{{ .path }}-file={{ include "stoker.prometheusFolder" $ }}/{{ .path }}
{{- end }}
{{- end -}}

{{- define "wheeltapper.name" -}}
{{- if contains "wheeltapper" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-wheeltapper" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "wheeltapper.labels" -}}
{{ include "wheeltapper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "wheeltapper.selector" -}}
app.kubernetes.io/name: wheeltapper
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "wheeltapper.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- /* The configuration file: the values' tree, and over it what follows from how the chart lays things out. */ -}}
{{- define "wheeltapper.config" -}}
{{- $agent := dict "scheduler" "kubernetes" "kmsg" "/run/kernel-log/socket" "sysfs" "/host/sys" "run_dir" "/run/wheeltapper" "state_dir" "/var/lib/wheeltapper" }}
{{- $kubernetes := dict "namespace" .Release.Namespace }}
{{- if include "wheeltapper.preflight" . }}
{{- $name := include "wheeltapper.name" . }}
{{- $image := printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- $_ := set $kubernetes "preflight" (dict "image" $image "service" (printf "%s-webhook" $name) "secret" (printf "%s-webhook" $name) "configuration" (printf "%s-preflight" $name) "pod_resources" "/run/pod-resources/kubelet.sock") }}
{{- end }}
{{- /* /dev/shm in a pod is the pod's own: the agent's says nothing of the node. */ -}}
{{- $checks := dict "off" (concat (dig "checks" "off" list .Values.config) (list "shm") | uniq) }}
{{- $ours := dict "kubernetes" $kubernetes "agent" $agent "checks" $checks }}
{{- if .Values.monitoring.enabled }}
{{- $_ := set $ours "metrics" (dict "address" "0.0.0.0" "agent_port" 9469 "operator_port" 9470) }}
{{- end }}
{{- mergeOverwrite (deepCopy .Values.config) $ours | toJson }}
{{- end }}

{{- /* Not empty when pods ask before they start. */ -}}
{{- define "wheeltapper.preflight" -}}
{{- if dig "kubernetes" "preflight" "enabled" false .Values.config }}yes{{ end }}
{{- end }}

{{- define "wheeltapper.annotations" -}}
wheeltapper.dev/config: {{ include "wheeltapper.config" . | sha256sum | trunc 16 }}
{{- end }}

{{- /* What Pod Security's restricted profile asks of a container. */ -}}
{{- define "wheeltapper.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "wheeltapper.pull" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

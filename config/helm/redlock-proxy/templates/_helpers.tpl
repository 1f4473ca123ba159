{{- /* The release's name, with that of the chart unless it is already in it. */}}
{{- define "redlock-proxy.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "redlock-proxy.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* The environment of a proxy; takes a list of the chart's context and the address for clients. */}}
{{- define "redlock-proxy.environment" -}}
{{- $chart := index . 0 -}}
{{- $shards := $chart.Values.settings.shards -}}
{{- if and $shards $chart.Values.masters -}}
{{- fail "masters and shards were given: not both" -}}
{{- else if not (or $shards $chart.Values.masters) -}}
{{- fail "name the masters: --set 'masters={redis-a.example.org:6379,redis-b.example.org:6379,redis-c.example.org:6379}'" -}}
{{- end -}}
- name: REDLOCK_PROXY_LISTEN
  value: {{ index . 1 | quote }}
- name: REDLOCK_PROXY_ADMIN
  value: "0.0.0.0:9379"
{{- with $chart.Values.masters }}
- name: REDLOCK_PROXY_MASTERS
  value: {{ join "," . | quote }}
{{- end }}
{{- range $name, $value := $chart.Values.settings }}
- name: REDLOCK_PROXY_{{ $name | upper | replace "-" "_" }}
  {{- if kindIs "slice" $value }}
  value: {{ join "," $value | quote }}
  {{- else if kindIs "string" $value }}
  value: {{ $value | quote }}
  {{- else }}
  value: {{ $value | toJson | quote }}
  {{- end }}
{{- end }}
{{- with $chart.Values.password }}
{{- if .secret }}
- name: REDLOCK_PROXY_REQUIREPASS_FILE
  value: {{ printf "/etc/redlock-proxy/secrets/%s" .key | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "redlock-proxy.securityContext" -}}
runAsNonRoot: true
runAsUser: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- /* Where a proxy finds the password and the files that its settings name: nothing, or a key of the container. */}}
{{- define "redlock-proxy.volumeMounts" -}}
{{- if or .Values.password.secret .Values.volumeMounts -}}
volumeMounts:
  {{- if .Values.password.secret }}
  - name: redlock-proxy-secrets
    mountPath: /etc/redlock-proxy/secrets
    readOnly: true
  {{- end }}
  {{- with .Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
{{- end -}}

{{- /* The list of volumes that these mounts need. */}}
{{- define "redlock-proxy.volumes" -}}
{{- if .Values.password.secret }}
- name: redlock-proxy-secrets
  secret:
    secretName: {{ .Values.password.secret }}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /*
A proxy next to an application, which connects to 127.0.0.1:6379, for a list of initContainers. Pods with a password
need redlock-proxy.volumes among their volumes, too.
*/}}
{{- define "redlock-proxy.sidecar" -}}
# A sidecar container: it starts before the application and ends after it.
- name: redlock-proxy
  image: {{ include "redlock-proxy.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  restartPolicy: Always
  env:
    {{- include "redlock-proxy.environment" (list . "127.0.0.1:6379") | nindent 4 }}
  startupProbe:
    httpGet:
      path: /live
      port: 9379
  resources:
    {{- toYaml .Values.sidecar.resources | nindent 4 }}
  securityContext:
    {{- include "redlock-proxy.securityContext" . | nindent 4 }}
  {{- with include "redlock-proxy.volumeMounts" . }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end -}}

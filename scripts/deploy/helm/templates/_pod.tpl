{{- define "larkway.name" -}}
{{- if contains "larkway" .Release.Name }}{{ .Release.Name | trunc 50 }}{{ else }}{{ printf "%s-larkway" .Release.Name | trunc 50 }}{{ end }}
{{- end }}

{{- define "larkway.labels" -}}
app.kubernetes.io/name: larkway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "larkway.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "larkway.file" -}}
{{ .Values.existingConfigMap | default (printf "%s-file" (include "larkway.name" .)) }}
{{- end }}

{{- /* Metadata and pod of one kind of process: `root`, its `values` and its `component`. */}}
{{- define "larkway.template" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "larkway.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  annotations:
    prometheus.io/scrape: "true"
    prometheus.io/port: "9464"
    prometheus.io/path: /metrics
    # Changes of larkway.yaml need no restart, those of the environment do.
    checksum/environment: {{ with $root.Values }}{{ list .memoryMib .usageBacklogMib .drainSeconds .s3 .environment | toJson | sha256sum }}{{ end }}
spec:
  {{- with $root.Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    runAsGroup: 1000
    fsGroup: 1000
    seccompProfile: { type: RuntimeDefault }
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "larkway.labels" $root | nindent 10 }}
          app.kubernetes.io/component: {{ .component }}
  {{- with .values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: larkway
      image: {{ include "larkway.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      {{- if eq .component "worker" }}
      command: [node, compiled/cli.js, worker]
      ports:
        - { name: metrics, containerPort: 9464 }
      {{- else }}
      ports:
        - { name: http, containerPort: 8080 }
        - { name: metrics, containerPort: 9464 }
      env:
        # Jobs are left to the workers.
        - { name: LARKWAY_JOBS, value: "0" }
      {{- end }}
      envFrom:
        - configMapRef: { name: {{ include "larkway.name" $root }} }
        - secretRef: { name: {{ $root.Values.existingSecret }} }
      {{- $port := eq .component "worker" | ternary "metrics" "http" }}
      startupProbe:
        httpGet: { path: /healthz, port: {{ $port }} }
        periodSeconds: 1
        failureThreshold: 60
      {{- if eq .component "node" }}
      readinessProbe:
        httpGet: { path: /readyz, port: http }
        periodSeconds: 2
        timeoutSeconds: 3
        failureThreshold: 2
      {{- end }}
      livenessProbe:
        httpGet: { path: /healthz, port: {{ $port }} }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      resources: {{- toYaml .values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts:
        - { name: config, mountPath: /etc/larkway, readOnly: true }
        - { name: data, mountPath: /data }
        - { name: tmp, mountPath: /tmp }
  volumes:
    # The folder, not the file: one that is mounted by itself never changes.
    - { name: config, configMap: { name: {{ include "larkway.file" $root }} } }
    - { name: data, emptyDir: { sizeLimit: {{ $root.Values.dataVolume }} } }
    - { name: tmp, emptyDir: { sizeLimit: {{ $root.Values.tmpVolume }} } }
{{- end }}

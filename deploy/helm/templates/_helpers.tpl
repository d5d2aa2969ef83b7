{{- define "app.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "app.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Selects the pods of a part: called with a dict of `root` and `part`. */}}
{{- define "app.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- /* The pod of a part: called with a dict of `root`, `part`, `values`, `ports`, `env` and the probes. */}}
{{- define "app.pod" -}}
{{- $root := .root }}
metadata:
  labels:
    {{- include "app.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .part }}
  annotations:
    # other settings start other pods
    checksum/config: {{ $root.Values.config | toJson | sha256sum }}
    {{- with $root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  # the processes exit within 8 s
  terminationGracePeriodSeconds: 20
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    runAsGroup: 1000
    fsGroup: 1000
    seccompProfile: { type: RuntimeDefault }
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .part }}
      image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: ["node", "dist/{{ .part }}.js"]
      envFrom:
        - configMapRef: { name: {{ include "app.name" $root }} }
        - secretRef: { name: {{ required "existingSecret must name a Secret with DATABASE_URL and ENCRYPTION_KEY" $root.Values.existingSecret }} }
      env:
        {{- toYaml .env | nindent 8 }}
      ports:
        {{- toYaml .ports | nindent 8 }}
      {{- toYaml .probes | nindent 6 }}
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      securityContext:
        readOnlyRootFilesystem: true
        allowPrivilegeEscalation: false
        capabilities: { drop: ["ALL"] }
      volumeMounts:
        - { name: data, mountPath: /data }
        - { name: tmp, mountPath: /tmp }
  volumes:
    # temporary files alone: mail is in the bucket
    - { name: data, emptyDir: {} }
    - { name: tmp, emptyDir: {} }
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "app.selector" . | nindent 10 }}
  {{- with $root.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* Disruption budget and autoscaler of a part: called with a dict of `root`, `part` and `values`. */}}
{{- define "app.scaling" -}}
{{- $name := printf "%s-%s" (include "app.name" .root) .part }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels:
    {{- include "app.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "app.selector" . | nindent 6 }}
{{- if .values.autoscaling.enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $name }}
  labels:
    {{- include "app.labels" .root | nindent 4 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ $name }} }
  minReplicas: {{ .values.autoscaling.minReplicas }}
  maxReplicas: {{ .values.autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: { type: Utilization, averageUtilization: {{ .values.autoscaling.targetCPUUtilizationPercentage }} }
{{- end }}
{{- end }}

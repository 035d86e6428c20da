{{- define "bidweir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "bidweir.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 45 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "bidweir.selector" -}}
app.kubernetes.io/name: {{ include "bidweir.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* Not the selector's: the Services must not send traffic to pods of hooks. */}}
{{- define "bidweir.hookLabels" -}}
app.kubernetes.io/component: hook
app.kubernetes.io/part-of: {{ include "bidweir.fullname" . | quote }}
{{- end }}

{{- define "bidweir.version" -}}
{{- default .Chart.AppVersion .Values.image.tag | replace "+" "_" | trunc 63 | trimSuffix "-" | trimSuffix "." | trimSuffix "_" }}
{{- end }}

{{- define "bidweir.labels" -}}
{{ include "bidweir.selector" . }}
{{ include "bidweir.ownerLabels" . }}
{{- end }}

{{- define "bidweir.ownerLabels" -}}
app.kubernetes.io/version: {{ include "bidweir.version" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A field `annotations` of what is given, after what is common to all; empty if there is none. */}}
{{- define "bidweir.annotations" -}}
{{- $all := dict }}
{{- range .of }}
{{- $all = mergeOverwrite $all (deepCopy (default dict .)) }}
{{- end }}
{{- $all = mergeOverwrite $all (deepCopy .root.Values.commonAnnotations) }}
{{- with $all }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "bidweir.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "bidweir.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "bidweir.image" -}}
{{- $registry := default .Values.image.registry .Values.global.imageRegistry }}
{{- $name := ternary .Values.image.repository (printf "%s/%s" $registry .Values.image.repository) (empty $registry) }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $name .Values.image.digest }}
{{- else }}
{{- /* A reference has no "+"; OCI writes "_" in its place. */}}
{{- printf "%s:%s" $name (default (replace "+" "_" .Chart.AppVersion) .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* The Secret that has `context-key-<id>` or `admin-password`. */}}
{{- define "bidweir.secretOf" -}}
{{- default (printf "%s-%s" (include "bidweir.fullname" .root) .field) .root.Values.existingSecret }}
{{- end }}

{{/* What the cluster has of a generated value, in base64; empty: nothing. */}}
{{- define "bidweir.kept" -}}
{{- $name := printf "%s-%s" (include "bidweir.fullname" .root) .field }}
{{- get ((lookup "v1" "Secret" .root.Release.Namespace $name).data | default dict) .field }}
{{- end }}

{{/* "true" where the store is configured, else empty. */}}
{{- define "bidweir.postgres" -}}
{{- with .Values.store.database }}{{ if or .url .existingSecret .host }}true{{ end }}{{ end }}
{{- end }}
{{- define "bidweir.redis" -}}
{{- with .Values.store.redis }}{{ if or .url .existingSecret .host }}true{{ end }}{{ end }}
{{- end }}

{{/* http, or https where the listener of bid traffic has a certificate. */}}
{{- define "bidweir.proxyScheme" -}}
{{- ternary "http" "https" (empty (dig "proxy" "tls" "" .Values.config)) }}
{{- end }}

{{/* "true" where exchanges call the pods as agents. */}}
{{- define "bidweir.agent" -}}
{{- if kindIs "map" .Values.config.agent }}true{{ end }}
{{- end }}

{{/* The protocol of a Service, for gateways: of bids, of gRPC, or http. */}}
{{- define "bidweir.appProtocol" -}}
{{- if eq .listener "proxy" }}{{ include "bidweir.proxyScheme" .root }}
{{- else if eq .listener "agent" }}{{ ternary "kubernetes.io/h2c" "https" (empty (dig "agent" "tls" "" .root.Values.config)) }}
{{- else }}http{{ end }}
{{- end }}

{{/* "true" where there may be more than one pod. */}}
{{- define "bidweir.several" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1) }}true{{ end }}
{{- end }}

{{/* The security context of a pod or container. OpenShift assigns the ids itself. */}}
{{- define "bidweir.securityContext" -}}
{{- $context := .context }}
{{- if .root.Capabilities.APIVersions.Has "security.openshift.io/v1" }}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" }}
{{- end }}
{{- $context | toYaml }}
{{- end }}

{{/* Fields of every pod: of the Deployment's, and of the hooks'. */}}
{{- define "bidweir.pod" -}}
automountServiceAccountToken: false
{{- $secrets := .Values.imagePullSecrets }}
{{- range .Values.global.imagePullSecrets }}
{{- $secrets = append $secrets (ternary . (dict "name" .) (kindIs "map" .)) }}
{{- end }}
{{- with $secrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "bidweir.securityContext" (dict "root" . "context" .Values.podSecurityContext) | nindent 2 }}
{{- range $field := list "nodeSelector" "tolerations" "priorityClassName" "runtimeClassName" "schedulerName" "hostAliases" "dnsPolicy" "dnsConfig" }}
{{- with get $.Values $field }}
{{ dict $field . | toYaml }}
{{- end }}
{{- end }}
{{- end }}

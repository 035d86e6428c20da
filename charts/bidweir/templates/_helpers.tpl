{{- define "bidweir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "bidweir.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "bidweir.selector" -}}
app.kubernetes.io/name: {{ include "bidweir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Not the selector's: the Services must not send traffic to the test pod. */}}
{{- define "bidweir.testLabels" -}}
app.kubernetes.io/component: test
app.kubernetes.io/part-of: {{ include "bidweir.fullname" . }}
{{- end }}

{{- define "bidweir.labels" -}}
{{ include "bidweir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "bidweir.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "bidweir.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "bidweir.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "bidweir.secret" -}}
{{- default (include "bidweir.fullname" .) .Values.existingSecret }}
{{- end }}

{{/* "true" where a URL of the store is configured, else empty. */}}
{{- define "bidweir.postgres" -}}
{{- if or .Values.store.database.url .Values.store.database.existingSecret }}true{{ end }}
{{- end }}
{{- define "bidweir.redis" -}}
{{- if or .Values.store.redis.url .Values.store.redis.existingSecret }}true{{ end }}
{{- end }}

{{/* "true" while no supplier is configured: the demo supplier stands in. */}}
{{- define "bidweir.demo" -}}
{{- if not .Values.config.suppliers }}true{{ end }}
{{- end }}

{{/* "true" where tokens come from the embedded endpoint. */}}
{{- define "bidweir.embedded" -}}
{{- if not (dig "admin" "auth" "issuer" "" .Values.config) }}true{{ end }}
{{- end }}

{{- define "bidweir.realm" -}}
{{- dig "admin" "auth" "embedded" "realm" "main" .Values.config }}
{{- end }}

{{/* What a change of needs a restart for: everything else the service reloads by itself. */}}
{{- define "bidweir.config.fixed" -}}
{{- $auth := dig "admin" "auth" dict .Values.config | deepCopy }}
{{- if include "bidweir.embedded" . }}
{{- $embedded := dict "realm" (include "bidweir.realm" .) "adminPassword" (dict "file" "/etc/bidweir/secret/admin-password") }}
{{- $auth = merge (dict "embedded" $embedded) $auth }}
{{- end }}
{{- $admin := merge (dict "listen" "0.0.0.0:8081" "auth" $auth) (dig "admin" dict .Values.config | deepCopy) }}
{{- if include "bidweir.demo" . }}
{{- $admin = merge (dict "impressions" (dict "auth" "context")) $admin }}
{{- end }}
{{- $store := dict "database" "sqlite:/data/bidweir.db" }}
{{- if include "bidweir.postgres" . }}
{{- $store = dict "database" (dict "file" "/etc/bidweir/database/url") }}
{{- end }}
{{- if include "bidweir.redis" . }}
{{- $_ := set $store "redis" (dict "file" "/etc/bidweir/redis/url") }}
{{- end }}
{{- dict "admin" $admin "stateDir" "/data" "store" $store | toYaml }}
{{- end }}

{{- define "bidweir.config" -}}
{{- $config := merge (include "bidweir.config.fixed" . | fromYaml) (.Values.config | deepCopy) }}
{{- $_ := set $config "proxy" (merge (dict "listen" "0.0.0.0:8080") (default dict $config.proxy)) }}
{{- $keys := list }}
{{- range .Values.contextKeys }}
{{- $keys = append $keys (dict "id" (int .id) "secret" (dict "file" (printf "/etc/bidweir/secret/context-key-%d" (int .id)))) }}
{{- end }}
{{- $_ := set $config "opd" (merge (dict "keys" $keys) (default dict $config.opd)) }}
{{- $_ := set $config "drain" (dict "grace" (printf "%ds" (int .Values.drain.graceSeconds)) "timeout" (printf "%ds" (int .Values.drain.timeoutSeconds))) }}
{{- if include "bidweir.demo" . }}
{{- $demo := dict "id" "demo" "name" "Demo" "name_external" "Demo Exchange" "account" "demo" "timeout" "250ms" }}
{{- $_ := set $demo "endpoints" (list "http://127.0.0.1:9090/openrtb") }}
{{- $_ := set $demo "opd" (dict "enabled" true "holdout" 0) }}
{{- $_ := set $config "suppliers" (list $demo) }}
{{- end }}
{{- $config | toYaml }}
{{- end }}

{{- define "bidweir.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

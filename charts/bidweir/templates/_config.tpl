{{/* All suppliers: the list, then the map by id. */}}
{{- define "bidweir.suppliers" -}}
{{- /* An item at a time: `append` copies the list each time. */ -}}
{{- with .Values.config.suppliers }}{{ toYaml . }}{{ end }}
{{- range $id, $supplier := .Values.suppliers }}
{{- if not (kindIs "invalid" $supplier) }}
{{ list (merge (dict "id" $id) $supplier) | toYaml }}
{{- end }}
{{- end }}
{{- end }}

{{/* "true" while no supplier is configured: the demo supplier is used. */}}
{{- define "bidweir.demo" -}}
{{- $found := not (and (empty .Values.config.suppliers) (empty .Values.config.suppliersFrom) (empty .Values.suppliersFrom)) }}
{{- range .Values.suppliers }}{{ $found = or $found (not (kindIs "invalid" .)) }}{{ end }}
{{- if not $found }}true{{ end }}
{{- end }}

{{/* "true" where tokens come from the embedded endpoint. */}}
{{- define "bidweir.embedded" -}}
{{- if not (dig "admin" "auth" "issuer" "" .Values.config) }}true{{ end }}
{{- end }}

{{- define "bidweir.realm" -}}
{{- dig "admin" "auth" "embedded" "realm" "main" .Values.config }}
{{- end }}

{{/* store.database and store.redis, as the configuration has them. */}}
{{- define "bidweir.store" -}}
{{- $store := dict "retentionDays" (int .Values.store.retentionDays) }}
{{- with .Values.store.database }}
{{- if .host }}
{{- $query := ternary "" (printf "?%s" .params) (empty .params) }}
{{- $_ := set $store "database" (printf "postgres://%s:%d/%s%s" .host (int .port) .name $query) }}
{{- else if or .url .existingSecret }}
{{- $_ := set $store "database" (dict "file" "/etc/bidweir/database/url") }}
{{- else }}
{{- $_ := set $store "database" "sqlite:/data/bidweir.db" }}
{{- end }}
{{- end }}
{{- with .Values.store.redis }}
{{- if .host }}
{{- $password := ternary ":${BIDWEIR_REDIS_PASSWORD}@" "" (not (empty .existingSecret)) }}
{{- $_ := set $store "redis" (printf "%s://%s%s:%d" (ternary "rediss" "redis" .tls) $password .host (int .port)) }}
{{- else if or .url .existingSecret }}
{{- $_ := set $store "redis" (dict "file" "/etc/bidweir/redis/url") }}
{{- end }}
{{- end }}
{{- $store | toYaml }}
{{- end }}

{{- define "bidweir.config" -}}
{{- $config := .Values.config | deepCopy }}
{{- $_ := set $config "stateDir" "/data" }}
{{- $_ := set $config "store" (include "bidweir.store" . | fromYaml) }}
{{- $_ := set $config "notices" (dict "listen" "0.0.0.0:8082") }}
{{- if include "bidweir.agent" . }}
{{- $_ := set $config "agent" (merge (dict "listen" "0.0.0.0:50051") $config.agent) }}
{{- end }}
{{- $_ := set $config "proxy" (merge (dict "listen" "0.0.0.0:8080") (default dict $config.proxy)) }}
{{- $admin := merge (dict "listen" "0.0.0.0:8081") (default dict $config.admin) }}
{{- if include "bidweir.embedded" . }}
{{- $embedded := dict "realm" (include "bidweir.realm" .) "adminPassword" (dict "file" "/etc/bidweir/secret/admin-password") }}
{{- $_ := set $admin "auth" (dict "embedded" $embedded) }}
{{- end }}
{{- if include "bidweir.demo" . }}
{{- $admin = merge (dict "impressions" (dict "auth" "context")) $admin }}
{{- end }}
{{- $_ := set $config "admin" $admin }}
{{- $keys := list }}
{{- range .Values.contextKeys }}
{{- $keys = append $keys (dict "id" (int .id) "secret" (dict "file" (printf "/etc/bidweir/secret/context-key-%d" (int .id)))) }}
{{- end }}
{{- $_ := set $config "opd" (merge (dict "keys" $keys) (default dict $config.opd)) }}
{{- $_ := set $config "drain" (dict "grace" (printf "%ds" (int .Values.drain.graceSeconds)) "timeout" (printf "%ds" (int .Values.drain.timeoutSeconds))) }}
{{- $_ := set $config "suppliers" (include "bidweir.suppliers" . | fromYamlArray) }}
{{- /* `--reuse-values` has the values of the chart before. */}}
{{- $folders := default list $config.suppliersFrom }}
{{- range .Values.suppliersFrom }}
{{- $folders = append $folders (printf "/etc/bidweir-suppliers/%s" .name) }}
{{- end }}
{{- with $folders }}
{{- $_ := set $config "suppliersFrom" . }}
{{- end }}
{{- if include "bidweir.demo" . }}
{{- $demo := dict "id" "demo" "name" "Demo" "name_external" "Demo Exchange" "account" "demo" "timeout" "250ms" }}
{{- $_ := set $demo "endpoints" (list "http://127.0.0.1:9090/openrtb") }}
{{- $_ := set $demo "opd" (dict "enabled" true "holdout" 0) }}
{{- $_ := set $config "suppliers" (list $demo) }}
{{- end }}
{{- $config | toYaml }}
{{- end }}

{{/* What a change of needs a restart for, by the list of the service; the rest it reloads by itself. */}}
{{- define "bidweir.restart" -}}
{{- $config := include "bidweir.config" . | fromYaml }}
{{- $fixed := dict "urls" (list .Values.store.database.url .Values.store.redis.url) }}
{{- if .Values.restartOnConfigChange }}
{{- $_ := set $fixed "config" $config }}
{{- end }}
{{- range .Files.Get "files/restart-keys.json" | fromJsonArray }}
{{- $value := $config }}
{{- range $part := splitList "." .key }}
{{- $value = ternary (get (ternary $value dict (kindIs "map" $value)) $part) "" (kindIs "map" $value) }}
{{- end }}
{{- $_ := set $fixed .key (ternary $value (not (empty $value)) (eq .compare "value")) }}
{{- end }}
{{- $fixed | toJson | sha256sum }}
{{- end }}

{{/* Environment of whatever reads the configuration. */}}
{{- define "bidweir.env" -}}
{{- include "bidweir.envWith" (dict "root" . "more" list) }}
{{- end }}

{{/* The same after `more`. */}}
{{- define "bidweir.envWith" -}}
{{- $env := .more }}
{{- with .root }}
{{- with .Values.store.database }}
{{- if .host }}
{{- range $name, $key := dict "PGUSER" .userKey "PGPASSWORD" .passwordKey }}
{{- $env = append $env (dict "name" $name "valueFrom" (dict "secretKeyRef" (dict "name" $.root.Values.store.database.existingSecret "key" $key))) }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.store.redis }}
{{- if and .host .existingSecret }}
{{- $env = append $env (dict "name" "BIDWEIR_REDIS_PASSWORD" "valueFrom" (dict "secretKeyRef" (dict "name" .existingSecret "key" .passwordKey))) }}
{{- end }}
{{- end }}
{{- if or .Values.caBundle.existingConfigMap .Values.caBundle.existingSecret }}
{{- $env = append $env (dict "name" "NODE_EXTRA_CA_CERTS" "value" "/etc/bidweir-ca/ca.crt") }}
{{- end }}
{{- if .Values.config.tracing }}
{{- range $name, $field := dict "BIDWEIR_NAMESPACE" "metadata.namespace" "BIDWEIR_NODE" "spec.nodeName" "BIDWEIR_POD" "metadata.name" }}
{{- $env = append $env (dict "name" $name "valueFrom" (dict "fieldRef" (dict "fieldPath" $field))) }}
{{- end }}
{{- $env = append $env (dict "name" "OTEL_RESOURCE_ATTRIBUTES" "value" "k8s.namespace.name=$(BIDWEIR_NAMESPACE),k8s.pod.name=$(BIDWEIR_POD),k8s.node.name=$(BIDWEIR_NODE)") }}
{{- end }}
{{- with concat $env .Values.env }}
env: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.envFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* How a backup reaches its bucket, as a list of environment variables; credentials without a Secret are those of the account. */}}
{{- define "bidweir.bucketEnv" -}}
{{- with .s3 }}
{{- $env := list }}
{{- if .bucket }}
{{- with .region }}{{ $env = append $env (dict "name" "AWS_REGION" "value" .) }}{{ end }}
{{- with .endpoint }}{{ $env = append $env (dict "name" "AWS_ENDPOINT_URL_S3" "value" .) }}{{ end }}
{{- if .existingSecret }}
{{- range $name, $key := dict "AWS_ACCESS_KEY_ID" .accessKeyIdKey "AWS_SECRET_ACCESS_KEY" .secretAccessKeyKey }}
{{- $env = append $env (dict "name" $name "valueFrom" (dict "secretKeyRef" (dict "name" $.s3.existingSecret "key" $key))) }}
{{- end }}
{{- end }}
{{- end }}
{{- $env | toYaml }}
{{- end }}
{{- end }}

{{- define "bidweir.mounts" -}}
# Whole folders: a file mounted by subPath never sees a changed ConfigMap.
- {name: config, mountPath: /etc/bidweir, readOnly: true}
{{- if or .Values.caBundle.existingConfigMap .Values.caBundle.existingSecret }}
- {name: ca, mountPath: /etc/bidweir-ca, readOnly: true}
{{- end }}
{{- range $index, $from := .Values.suppliersFrom }}
- {name: suppliers-{{ $index }}, mountPath: {{ printf "/etc/bidweir-suppliers/%s" $from.name | quote }}, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Volumes of `bidweir.mounts`. `hook`: before the chart's own objects exist, its own secrets are stand-ins. */}}
{{- define "bidweir.volumes" -}}
{{- $name := include "bidweir.fullname" .root }}
{{- $hook := .hook }}
{{- with .root }}
- name: config
  projected:
    sources:
      - configMap:
          name: {{ printf "%s%s" $name (ternary "-preflight" "" $hook) | quote }}
          {{- if $hook }}
          items:
            - {key: bidweir.yaml, path: bidweir.yaml}
            {{- if not .Values.existingSecret }}
            {{- range .Values.contextKeys }}
            - {key: stand-in, path: secret/context-key-{{ int .id }}}
            {{- end }}
            - {key: stand-in, path: secret/admin-password}
            {{- end }}
          {{- end }}
      {{- if or (not $hook) .Values.existingSecret }}
      {{- range .Values.contextKeys }}
      {{- $field := printf "context-key-%d" (int .id) }}
      - secret:
          name: {{ include "bidweir.secretOf" (dict "root" $.root "field" $field) | quote }}
          items:
            - {key: {{ $field }}, path: secret/{{ $field }}}
      {{- end }}
      {{- if include "bidweir.embedded" . }}
      - secret:
          name: {{ include "bidweir.secretOf" (dict "root" . "field" "admin-password") | quote }}
          items:
            - {key: admin-password, path: secret/admin-password}
      {{- end }}
      {{- end }}
      {{- range $store := list "database" "redis" }}
      {{- $source := get $.root.Values.store $store }}
      {{- if and (or $source.url $source.existingSecret) (not $source.host) }}
      - secret:
          name: {{ default (printf "%s-%s" $name (ternary "preflight" "stores" $hook)) $source.existingSecret | quote }}
          items:
            - {key: {{ ternary (printf "%s-url" $store) $source.key (empty $source.existingSecret) | quote }}, path: {{ $store }}/url}
      {{- end }}
      {{- end }}
{{- with .Values.caBundle }}
{{- if .existingConfigMap }}
- name: ca
  configMap: {name: {{ .existingConfigMap | quote }}, items: [{key: {{ .key | quote }}, path: ca.crt}]}
{{- else if .existingSecret }}
- name: ca
  secret: {secretName: {{ .existingSecret | quote }}, items: [{key: {{ .key | quote }}, path: ca.crt}]}
{{- end }}
{{- end }}
{{- range $index, $from := .Values.suppliersFrom }}
- name: suppliers-{{ $index }}
  # The hook runs before ConfigMaps of the same release exist: an absent one is an empty folder.
  configMap: {name: {{ $from.name | quote }}, optional: {{ or $hook (default false $from.optional) }}}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

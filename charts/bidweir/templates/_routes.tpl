{{/* What is published: for each role its Service and paths. */}}
{{- define "bidweir.routes" -}}
bids: {service: proxy, type: Prefix, paths: [/bid, /pass]}
notices: {service: notices, type: Exact, paths: [/opd/imp, /opd/loss]}
admin: {service: admin, type: Prefix, paths: [/]}
{{- end }}

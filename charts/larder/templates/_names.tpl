{{- define "larder.labels" -}}
app.kubernetes.io/name: larder
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: larder
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with include "larder.commonLabels" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- /* Labels from the values for every object, except those that we set ourselves, which selectors rely on. */ -}}
{{- define "larder.commonLabels" -}}
{{- with omit (.Values.commonLabels | default dict) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/component" "app.kubernetes.io/part-of" "app.kubernetes.io/managed-by" "helm.sh/chart" -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- /* The selector for a program's pods. It must never change: selectors are immutable. Called with (list $ component). */ -}}
{{- define "larder.selector" -}}
app.kubernetes.io/name: larder
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- /*
The labels of a program's pods. None of them changes with the chart's version, or every upgrade would restart every
agent. Called with (list $ component).
*/ -}}
{{- define "larder.podLabels" -}}
{{- $root := index . 0 -}}
{{ include "larder.selector" . }}
app.kubernetes.io/part-of: larder
{{- with include "larder.commonLabels" $root }}
{{ . }}
{{- end }}
{{- end -}}

{{- /* Labels from the values for a program's pods, except those that we set ourselves. Called with (list $ program). */ -}}
{{- define "larder.extraLabels" -}}
{{- with omit ((index (index . 0).Values (index . 1)).podLabels | default dict) "app.kubernetes.io/name" "app.kubernetes.io/component" "app.kubernetes.io/part-of" -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- /* Called with (list $ "controller" | "agent"). */ -}}
{{- define "larder.image" -}}
{{- $root := index . 0 -}}
{{- $image := (index $root.Values (index . 1)).image -}}
{{- with $root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ coalesce $image.tag $root.Values.image.tag $root.Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- /* Called with (list $ "controller" | "agent"). */ -}}
{{- define "larder.priorityClassName" -}}
{{- $root := index . 0 -}}
{{- $own := ternary $root.Values.priorityClass.name "" $root.Values.priorityClass.create -}}
{{- (index $root.Values (index . 1)).priorityClassName | default $own -}}
{{- end -}}

{{- /* The kinds whose pods may have claims from an annotation, as a JSON list; empty if that is switched off. */ -}}
{{- define "larder.templateWorkloads" -}}
{{- $values := merge (dict) .Values -}}
{{- ternary (dig "volumeClaimTemplates" "workloads" (list) $values) (list) (dig "volumeClaimTemplates" "enabled" false $values) | toJson -}}
{{- end -}}

{{- /* "true" if agents advertise devices, else empty. */ -}}
{{- define "larder.devices" -}}
{{- if dig "devices" "enabled" false (merge (dict) .Values) }}true{{ end -}}
{{- end -}}

{{- /* The subresources of its Node that an agent may write, in CEL; '' is the Node itself. Keep rig/larder/objects.py in step. */ -}}
{{- define "larder.agentNodeParts" -}}
''{{ if include "larder.devices" . }}, 'status'{{ end -}}
{{- end -}}

{{- /* Whether an agent may write annotation k to its Node, in CEL. Keep rig/larder/objects.py in step. */ -}}
{{- define "larder.agentAnnotations" -}}
k.startsWith('larder.dev/'){{ if include "larder.devices" . }} || k == 'KubeDevice/DeviceInfo'{{ end -}}
{{- end -}}

{{- /*
The service account of a program. Called with (list $ "controller" | "agent"). Values of an earlier release may lack it.
*/ -}}
{{- define "larder.account" -}}
{{- dig "serviceAccount" "name" "" (index (index . 0).Values (index . 1)) | default (printf "larder-%s" (index . 1)) -}}
{{- end -}}

{{- define "larder.port" -}}
{{- .Values.controller.port | default 8443 -}}
{{- end -}}

{{- define "larder.healthPort" -}}
{{- .Values.controller.healthPort | default 8080 -}}
{{- end -}}

{{- /* The DNS settings of a program's pods. Called with (list $ "controller" | "agent"). */ -}}
{{- define "larder.dns" -}}
{{- $program := index (index . 0).Values (index . 1) -}}
{{- with $program.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" ($program.hostNetwork | default false)) }}
dnsPolicy: {{ . }}
{{- end }}
{{- with $program.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "larder.address" -}}
{{- ternary "[::]" "0.0.0.0" (eq .Values.ipFamily "IPv6") -}}
{{- end -}}

{{- /* Whether the DRA driver serves health and metrics: only if something reads them. */ -}}
{{- define "larder.draServes" -}}
{{- if or (dig "dra" "metrics" false (merge (dict) .Values)) .Values.monitoring.monitors }}true{{ end -}}
{{- end -}}

{{- /* Whether the DRA driver may add devices of plugins to claims. */ -}}
{{- define "larder.draPlugins" -}}
{{- $dra := .Values.dra | default dict -}}
{{- $allow := $dra.allow | default dict -}}
{{- if and $dra.enabled (or $allow.mounts $allow.devices $allow.env) }}true{{ else }}false{{ end -}}
{{- end -}}

{{- define "larder.serviceName" -}}
larder.{{ .Release.Namespace }}.svc
{{- end -}}

{{- /* The settings for sources, the same for both programs. */ -}}
{{- define "larder.sourcesEnv" -}}
{{- with .Values.sources.hfEndpoint }}
- {name: HF_ENDPOINT, value: {{ quote . }}}
{{- end }}
{{- with .Values.sources.s3Endpoint }}
- {name: AWS_ENDPOINT_URL, value: {{ quote . }}}
{{- end }}
{{- with .Values.sources.s3Addressing }}
- {name: LARDER_S3_ADDRESSING, value: {{ quote . }}}
{{- end }}
{{- with .Values.sources.s3Region }}
- {name: AWS_REGION, value: {{ quote . }}}
{{- end }}
{{- with .Values.sources.gsEndpoint }}
- {name: STORAGE_EMULATOR_HOST, value: {{ quote . }}}
{{- end }}
{{- with .Values.sources.azEndpoint }}
- {name: AZURE_STORAGE_SERVICE_ENDPOINT, value: {{ quote . }}}
{{- end }}
{{- with .Values.sources.ociEndpoint }}
- {name: OCI_CLI_ENDPOINT, value: {{ quote . }}}
{{- end }}
{{- with .Values.sources.ociRegion }}
- {name: OCI_CLI_REGION, value: {{ quote . }}}
{{- end }}
{{- with .Values.sources.registries }}
- {name: LARDER_REGISTRIES, value: {{ join "," . | quote }}}
{{- end }}
{{- with .Values.sources.allowAddresses }}
- {name: LARDER_ALLOW_ADDRESSES, value: {{ join "," . | quote }}}
{{- end }}
{{- if .Values.sources.caBundle.configMap }}
- {name: SSL_CERT_FILE, value: /etc/larder/sources/ca-bundle.crt}
{{- end }}
{{- end -}}

{{- define "larder.sourcesMount" -}}
{{- if .Values.sources.caBundle.configMap }}
- {name: sources-ca, mountPath: /etc/larder/sources, readOnly: true}
{{- end }}
{{- end -}}

{{- define "larder.sourcesVolume" -}}
{{- with .Values.sources.caBundle }}
{{- if .configMap }}
- name: sources-ca
  configMap:
    name: {{ .configMap }}
    items:
      - {key: {{ quote .key }}, path: ca-bundle.crt}
{{- end }}
{{- end }}
{{- end -}}

{{- /* A quantity as text: helm reads whole numbers as floats and would write 1e+11. */ -}}
{{- define "larder.quantity" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ int64 . }}{{ end -}}
{{- end -}}

{{- /* What a client of the API server needs. Unlike the token that kubelet mounts by default, this one is valid for an hour. */ -}}
{{- define "larder.kubeApi" -}}
defaultMode: 0444
sources:
  - serviceAccountToken: {path: token, expirationSeconds: 3600}
  - configMap:
      name: kube-root-ca.crt
      items:
        - {key: ca.crt, path: ca.crt}
  - downwardAPI:
      items:
        - {path: namespace, fieldRef: {fieldPath: metadata.namespace}}
{{- end -}}

{{- define "larder.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "larder.user" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- /* The resources of the short programs that helm runs as hooks. */ -}}
{{- define "larder.hookResources" -}}
requests: {cpu: 10m, memory: 32Mi, ephemeral-storage: 1Mi}
limits: {memory: 128Mi, ephemeral-storage: 16Mi}
{{- end -}}

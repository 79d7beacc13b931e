{{- /* The secret part of the extender's path: it follows from the one of the webhooks, but not the other way round. */ -}}
{{- define "larder.schedulerKey" -}}
{{- printf "scheduler %s" (include "larder.pathKeys" . | fromJsonArray | first) | sha256sum -}}
{{- end -}}

{{- /* A Secret, because whoever knows the path may ask the extender. */ -}}
{{- define "larder.schedulerConfig" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceLock: leases, resourceNamespace: {{ .Release.Namespace }}, resourceName: larder-scheduler}
profiles:
  - schedulerName: larder-scheduler
    percentageOfNodesToScore: 100  # a sample may lack the only nodes with the devices or the model
    {{- if dig "dra" "enabled" false (merge (dict) .Values) }}
    # a claim gets the first of its alternatives that some node has; at the default weight, 2, a taint would decide
    plugins: {multiPoint: {enabled: [{name: DynamicResources, weight: 100}]}}
    {{- end }}
extenders:
  - urlPrefix: https://{{ include "larder.serviceName" . }}:443/scheduler/{{ include "larder.schedulerKey" . }}
    filterVerb: filter
    prioritizeVerb: prioritize
    bindVerb: bind
    weight: {{ .Values.scheduler.weight }}
    enableHTTPS: true
    tlsConfig: {caFile: /etc/larder/tls/ca.crt}
    nodeCacheCapable: true
    httpTimeout: 500ms  # nothing else can be scheduled while an answer is awaited
    ignorable: false  # else a refused binding, too, would be ignored, and the pod bound without its devices
    managedResources:
      - {name: larder.dev/devices, ignoredByScheduler: true}
{{- end -}}

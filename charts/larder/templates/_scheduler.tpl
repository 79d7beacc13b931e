{{- /* The secret part of the extender's path, derived from that of the webhooks, which it does not reveal. */ -}}
{{- define "larder.schedulerKey" -}}
{{- printf "scheduler %s" (include "larder.pathKeys" . | fromJsonArray | first) | sha256sum -}}
{{- end -}}

{{- /* Stored in a Secret, because anyone who knows the path can call the extender. */ -}}
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
    httpTimeout: 500ms  # nothing else is scheduled while the scheduler waits for an answer
    ignorable: false  # otherwise the scheduler would ignore a refused binding and bind the pod without its devices
    managedResources:
      - {name: larder.dev/devices, ignoredByScheduler: true}
{{- end -}}

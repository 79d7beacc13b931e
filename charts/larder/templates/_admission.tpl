{{- /*
The secret parts of the webhooks' path, as JSON: the webhooks use the first, and the controller accepts all. They come from
the values, else from the cluster, else a new one is created, once per rendering, because the webhooks and the Secret must
have the same.
*/ -}}
{{- define "larder.pathKeys" -}}
{{- if not (hasKey .Values.admission "made") -}}
{{- $_ := set .Values.admission "made" (include "larder.pathKeys.make" .) -}}
{{- end -}}
{{- .Values.admission.made -}}
{{- end -}}

{{- define "larder.pathKeys.make" -}}
{{- $secret := lookup "v1" "Secret" .Release.Namespace "larder-admission" -}}
{{- $kept := dig "data" "keys" "" $secret | b64dec | trim -}}
{{- if .Values.admission.pathKeys -}}
{{- .Values.admission.pathKeys | toJson -}}
{{- else if $kept -}}
{{- without (regexSplit "\\s+" $kept -1) "" | toJson -}}
{{- else if and (ne .Values.certificates.provider "helm") (not (lookup "v1" "Namespace" "" "kube-system")) -}}
{{- fail "admission.pathKeys: helm sees no cluster here (helm template, Argo CD), so the secret path of the webhooks would change each time it renders the chart. Set your own, for example with openssl rand -hex 24" -}}
{{- else -}}
{{- list (randAlphaNum 48 | lower) | toJson -}}
{{- end -}}
{{- end -}}

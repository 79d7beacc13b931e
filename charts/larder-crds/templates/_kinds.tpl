{{/*
Whether the cluster has a definition that is not ours, by the label that all of ours carry. Without a cluster (helm
template) there is none.
*/}}
{{- define "larder-crds.foreign" -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" . -}}
{{- if $found -}}
{{- if ne (dig "metadata" "labels" "app.kubernetes.io/part-of" "" $found) "larder" -}}true{{- end -}}
{{- end -}}
{{- end -}}

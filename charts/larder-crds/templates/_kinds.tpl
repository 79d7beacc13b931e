{{/*
Whether the cluster has this definition without the label that all of ours have: it belongs to another product. Always
empty without a cluster (helm template).
*/}}
{{- define "larder-crds.foreign" -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" . -}}
{{- if $found -}}
{{- if ne (dig "metadata" "labels" "app.kubernetes.io/part-of" "" $found) "larder" -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Whether a kind is installed: "true" or nothing. Called with (list $ definition).
*/}}
{{- define "larder-crds.wanted" -}}
{{- $root := index . 0 -}}
{{- $name := (index . 1).metadata.name -}}
{{- $switch := get $root.Values.kinds $name -}}
{{- if not (hasKey $root.Values.kinds $name) -}}{{- $switch = index $root.Values.groups (index . 1).spec.group -}}{{- end -}}
{{- if and (eq (toString $switch) "auto") (not (lookup "v1" "Namespace" "" "kube-system")) -}}
{{- fail (printf "%s: helm sees no cluster here (helm template, Argo CD), so it cannot tell whether another product installed this kind. Set groups.%s, or this kind in kinds, to true or false" $name ((index . 1).spec.group | replace "." "\\.")) -}}
{{- end -}}
{{- if and (ne (toString $switch) "false") (not (include "larder-crds.foreign" $name)) -}}true{{- end -}}
{{- end -}}

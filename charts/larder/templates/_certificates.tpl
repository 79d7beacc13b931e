{{- define "larder.tlsSecret" -}}
{{- ternary .Values.certificates.secretName "larder-tls" (eq .Values.certificates.provider "existing") -}}
{{- end -}}

{{- /*
The certificates that this chart makes, as JSON: ca, caKey, crt, key, renewAfter. What the cluster has is kept until
two thirds of its life are over; then the same CA signs anew, so that nobody has to learn another one. Made once a
rendering, for the webhooks and the Secret must show the same.
*/ -}}
{{- define "larder.certificates" -}}
{{- if not (hasKey .Values.certificates "made") -}}
{{- $_ := set .Values.certificates "made" (include "larder.certificates.make" .) -}}
{{- end -}}
{{- .Values.certificates.made -}}
{{- end -}}

{{- define "larder.certificates.make" -}}
{{- $days := int .Values.certificates.validityDays -}}
{{- $secret := lookup "v1" "Secret" .Release.Namespace "larder-tls" -}}
{{- $authority := lookup "v1" "Secret" .Release.Namespace "larder-ca" -}}
{{- $renewAfter := dig "metadata" "annotations" "larder.dev/renew-after" "0" $secret | int64 -}}
{{- if and $secret $authority (lt (now | unixEpoch | int64) $renewAfter) -}}
{{- dict "ca" (index $secret.data "ca.crt" | b64dec) "caKey" (index $authority.data "ca.key" | b64dec)
      "caRenewAfter" (dig "metadata" "annotations" "larder.dev/renew-after" "0" $authority)
      "crt" (index $secret.data "tls.crt" | b64dec) "key" (index $secret.data "tls.key" | b64dec)
      "renewAfter" $renewAfter | toJson -}}
{{- else -}}
{{- $third := mul (div $days 3) 86400 -}}
{{- $now := now | unixEpoch | int64 -}}
{{- $caRenewAfter := dig "metadata" "annotations" "larder.dev/renew-after" "0" $authority | int64 -}}
{{- $ca := dict -}}
{{- if and $authority (lt $now $caRenewAfter) -}}
{{- $ca = buildCustomCert (index $authority.data "ca.crt") (index $authority.data "ca.key") -}}
{{- else -}}
{{- /* Three times as long as what it signs: every renewal in that time keeps it. */ -}}
{{- $ca = genCA "larder-ca" (mul $days 3 | int) -}}
{{- $caRenewAfter = add $now (mul $days 2 86400) -}}
{{- end -}}
{{- $names := list "larder" (printf "larder.%s" .Release.Namespace) (include "larder.serviceName" .) (printf "%s.cluster.local" (include "larder.serviceName" .)) -}}
{{- $made := genSignedCert (include "larder.serviceName" .) nil $names $days $ca -}}
{{- dict "ca" $ca.Cert "caKey" $ca.Key "crt" $made.Cert "key" $made.Key "caRenewAfter" $caRenewAfter
      "renewAfter" (add $now (mul 2 $third)) | toJson -}}
{{- end -}}
{{- end -}}

{{- /* The CA that the API server shall trust, base64; empty where cert-manager writes it. */ -}}
{{- define "larder.caBundle" -}}
{{- $own := .Values.certificates -}}
{{- if eq $own.provider "helm" -}}
{{- (include "larder.certificates" . | fromJson).ca | b64enc -}}
{{- else if eq $own.provider "existing" -}}
{{- if $own.caBundle -}}
{{- $own.caBundle | b64enc -}}
{{- else -}}
{{- $secret := lookup "v1" "Secret" .Release.Namespace $own.secretName -}}
{{- $found := dig "data" "ca.crt" "" $secret -}}
{{- required (printf "certificates.caBundle: Secret %s in namespace %s has no ca.crt that helm could read; set certificates.caBundle to the PEM of its CA" $own.secretName .Release.Namespace) $found -}}
{{- end -}}
{{- end -}}
{{- end -}}

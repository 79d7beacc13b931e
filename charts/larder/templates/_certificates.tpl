{{- define "larder.tlsSecret" -}}
{{- ternary .Values.certificates.secretName "larder-tls" (eq .Values.certificates.provider "existing") -}}
{{- end -}}

{{- /*
The certificates that this chart creates, as JSON: ca, caKey, caRenewAfter, caDays, bundle, crt, key, renewAfter, oldUntil.
Existing ones are kept for two thirds of their lifetime. Created once per rendering, because the webhooks and the Secret
must have the same.

A CA is replaced in three upgrades, because nodes see a changed Secret up to two minutes after the API server sees its
webhooks: first both CAs are trusted and the old certificate stays, then the new CA signs, then the old one is dropped.
Each step comes at least an hour after the one before.
*/ -}}
{{- define "larder.certificates" -}}
{{- if not (hasKey .Values.certificates "made") -}}
{{- $_ := set .Values.certificates "made" (include "larder.certificates.make" .) -}}
{{- end -}}
{{- .Values.certificates.made -}}
{{- end -}}

{{- define "larder.certificates.make" -}}
{{- $days := int .Values.certificates.validityDays -}}
{{- $now := now | unixEpoch | int64 -}}
{{- $step := add $now 3600 -}}
{{- $secret := lookup "v1" "Secret" .Release.Namespace "larder-tls" -}}
{{- $trusted := include "larder.trustedBefore" (list . $secret) | trim -}}
{{- $made := include "larder.authority" (list . $now $days) | fromJson -}}
{{- $isNew := not (contains (trim $made.ca) $trusted) -}}
{{- $bundle := ternary (printf "%s\n%s\n" (trim $made.ca) $trusted | trim) $trusted $isNew -}}
{{- $renewAfter := dig "metadata" "annotations" "larder.dev/renew-after" "0" $secret | int64 -}}
{{- $oldUntil := dig "metadata" "annotations" "larder.dev/old-ca-until" "0" $secret -}}
{{- if and $secret (lt $now $renewAfter) -}}
{{- if $isNew -}}
{{- $renewAfter = min $renewAfter $step -}}
{{- $oldUntil = "next-certificate" -}}
{{- else if and (ne $oldUntil "next-certificate") (ge $now (int64 $oldUntil)) -}}
{{- $bundle = $made.ca -}}
{{- end -}}
{{- $_ := set $made "crt" (index $secret.data "tls.crt" | b64dec) -}}
{{- $_ := set $made "key" (index $secret.data "tls.key" | b64dec) -}}
{{- else -}}
{{- $names := list "larder" (printf "larder.%s" .Release.Namespace) (include "larder.serviceName" .) (printf "%s.cluster.local" (include "larder.serviceName" .)) -}}
{{- $signer := buildCustomCert (b64enc $made.ca) (b64enc $made.caKey) -}}
{{- $signed := genSignedCertWithKey (include "larder.serviceName" .) nil $names $days $signer (genPrivateKey "ecdsa") -}}
{{- $_ := set $made "crt" $signed.Cert -}}
{{- $_ := set $made "key" $signed.Key -}}
{{- $renewAfter = add $now (div (mul $days 2 86400) 3) -}}
{{- $oldUntil = toString $step -}}
{{- end -}}
{{- $_ := set $made "oldUntil" (ternary "" $oldUntil (eq (trim $bundle) (trim $made.ca))) -}}
{{- merge (dict "bundle" (printf "%s\n" (trim $bundle)) "renewAfter" (toString $renewAfter)) $made | toJson -}}
{{- end -}}

{{- /*
The CA that signs, as JSON: ca, caKey, caRenewAfter, caDays. It is valid three times as long as what it signs, so
certificates that are valid for more than caDays need a new one. Helm cannot count more than 106,751 days: a CA with more
would have expired already.
*/ -}}
{{- define "larder.authority" -}}
{{- $root := index . 0 -}}
{{- $now := index . 1 -}}
{{- $days := index . 2 -}}
{{- $secret := lookup "v1" "Secret" $root.Release.Namespace "larder-ca" -}}
{{- $renewAfter := dig "metadata" "annotations" "larder.dev/renew-after" "0" $secret | int64 -}}
{{- $caDays := dig "metadata" "annotations" "larder.dev/signs-for-days" (toString $days) $secret | int -}}
{{- if and $secret (lt $now $renewAfter) (ge $caDays $days) -}}
{{- dict "ca" (index $secret.data "ca.crt" | b64dec) "caKey" (index $secret.data "ca.key" | b64dec) "caRenewAfter" ($renewAfter | toString) "caDays" ($caDays | toString) | toJson -}}
{{- else -}}
{{- $ca := genCAWithKey "larder-ca" (min (mul $days 3) 106000 | int) (genPrivateKey "ecdsa") -}}
{{- dict "ca" $ca.Cert "caKey" $ca.Key "caRenewAfter" (add $now (mul $days 2 86400) | toString) "caDays" ($days | toString) | toJson -}}
{{- end -}}
{{- end -}}

{{- /* The CAs for the certificate in use, from its Secret or, if that was deleted, from the webhooks. */ -}}
{{- define "larder.trustedBefore" -}}
{{- $root := index . 0 -}}
{{- $secret := index . 1 -}}
{{- if $secret -}}
{{- dig "data" "ca.crt" "" $secret | b64dec -}}
{{- else -}}
{{- $configuration := lookup "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "" "larder" -}}
{{- range (dig "webhooks" list $configuration | first | list) -}}
{{- dig "clientConfig" "caBundle" "" (. | default dict) | b64dec -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The CA that the API server should trust, in base64; empty if cert-manager injects it. */ -}}
{{- define "larder.caBundle" -}}
{{- $own := .Values.certificates -}}
{{- if eq $own.provider "helm" -}}
{{- (include "larder.certificates" . | fromJson).bundle | b64enc -}}
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

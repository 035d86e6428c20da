import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'

/**
 * Whether a listener accepts the certificate chain and the private key, both in PEM. Configurations are checked with it, so
 * that neither a start nor a reload fails at the listener.
 */
export function isTlsPair(tls: { cert: string; key: string }): boolean {
  try {
    createSecureContext(tls)
    return true
  } catch {
    return false
  }
}

const certificateBlock = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g

/** Whether a text has one or more certificates in PEM, all of them readable. */
export function areCertificates(pem: string): boolean {
  try {
    const blocks = pem.match(certificateBlock) ?? []
    return blocks.map((block) => new X509Certificate(block)).length > 0
  } catch {
    return false
  }
}

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

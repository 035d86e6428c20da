import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import * as z from 'zod'

/**
 * Whether a listener accepts the certificate chain and the private key, both in PEM. Configurations are checked with it, so
 * that neither a start nor a reload fails at the listener.
 *
 * @param tls the chain, the certificate of the listener first, and its key without a password
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

/**
 * The certificates of a text in PEM; it throws if one of them cannot be read.
 *
 * @param pem other text between the certificates is ignored
 * @throws if one of them cannot be read
 */
export const certificatesOf = (pem: string): X509Certificate[] =>
  (pem.match(certificateBlock) ?? []).map((block) => new X509Certificate(block))

/**
 * Whether a text has one or more certificates in PEM, all of them readable.
 *
 * @param pem a chain, or a list of authorities
 */
export function areCertificates(pem: string): boolean {
  try {
    return certificatesOf(pem).length > 0
  } catch {
    return false
  }
}

/** The certificate of a listener, as a configuration has it. */
export const certificatePair = {
  cert: z.string().describe('Certificate chain, PEM.'),
  key: z.string().describe('Private key of the certificate, PEM.'),
}

/**
 * The authorities of client certificates, as a configuration has them.
 *
 * @param text what a certificate of theirs permits, for the reference
 */
export const clientAuthorities = (text: string) =>
  z.string().refine(areCertificates, 'certificates, PEM').optional().describe(text)

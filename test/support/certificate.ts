import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A self-signed certificate of a host name or an address; null where openssl is absent. */
export function certificate(name: string): { cert: string; key: string } | null {
  const alternative = `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-tls-'))
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  try {
    execFileSync(
      'openssl',
      [
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
        ...['-days', '1', '-subj', `/CN=${name}`, '-keyout', key, '-out', cert],
        ...['-addext', `subjectAltName=${alternative}`],
      ],
      { stdio: 'ignore' },
    )
  } catch {
    return null
  }
  return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
}

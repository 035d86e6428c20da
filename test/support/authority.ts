/** A certificate authority of a test: it issues certificates of servers and clients, expired ones too. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface Pair {
  cert: string
  key: string
}

export interface Authority {
  cert: string
  /** `days` -1: it has expired. `subject`, `alternatives`: in place of those of the name, as openssl writes them. */
  issue(name: string, days?: number, names?: { subject?: string; alternatives?: string }): Pair
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

const alternativeOf = (name: string) => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`

/** null where openssl is absent. */
export function authority(ca: string): Authority | null {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-ca-'))
  const inFolder = (file: string) => join(folder, file)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe' })
  try {
    openssl(
      ...['req', '-x509', ...newKey, '-days', '10', '-subj', `/CN=${ca}`],
      ...['-keyout', inFolder('ca.key'), '-out', inFolder('ca.pem')],
      ...['-addext', 'basicConstraints=critical,CA:TRUE'],
    )
  } catch {
    return null
  }
  let issued = 0
  return {
    cert: readFileSync(inFolder('ca.pem'), 'utf8'),
    issue(name, days = 1, { subject = `/CN=${name}`, alternatives = alternativeOf(name) } = {}) {
      const [key, request, cert, extensions] = ['key', 'csr', 'pem', 'ext'].map((end) =>
        inFolder(`${issued}.${end}`),
      ) as [string, string, string, string]
      issued++
      openssl('req', ...newKey, '-subj', subject, '-keyout', key, '-out', request)
      writeFileSync(extensions, `subjectAltName=${alternatives}\n`)
      openssl(
        ...['x509', '-req', '-in', request, '-out', cert, '-days', String(days)],
        ...['-CA', inFolder('ca.pem'), '-CAkey', inFolder('ca.key'), '-CAcreateserial'],
        ...['-extfile', extensions],
      )
      return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
    },
  }
}

/** The certificate of a caller: who it names, and which names a supplier admits (`callers.subjects`). */
import type { Duplex } from 'node:stream'
import type { PeerCertificate, TLSSocket } from 'node:tls'

/** Whom a verified certificate names. */
export interface CallerIdentity {
  /** Common names, and alternative names: of hosts, URIs and mail. */
  names: readonly string[]
  /** Attributes of the subject, `O=Acme`. */
  attributes: ReadonlySet<string>
}

/** Node.js quotes values that contain a separator, as JSON. */
const alternative = /(DNS|URI|email):("(?:[^"\\]|\\.)*"|[^,]*)(?:, |$)/gy
const otherAlternative = /[^:]+:(?:"(?:[^"\\]|\\.)*"|[^,]*)(?:, |$)/y

function alternativeNames(text: string): string[] {
  const names: string[] = []
  for (let index = 0; index < text.length; ) {
    alternative.lastIndex = index
    const match = alternative.exec(text)
    if (match !== null) {
      const value = match[2]!
      names.push(value.startsWith('"') ? (JSON.parse(value) as string) : value)
      index = alternative.lastIndex
      continue
    }
    otherAlternative.lastIndex = index
    if (otherAlternative.exec(text) === null) return names
    index = otherAlternative.lastIndex
  }
  return names
}

/** Whom a certificate names. */
export function identityOf({
  subject,
  subjectaltname = '',
}: Pick<PeerCertificate, 'subject' | 'subjectaltname'>): CallerIdentity {
  const attributes = Object.entries(subject).flatMap(([name, values]) =>
    // An attribute may be repeated: the type says that it may not.
    [values ?? []].flat().map((value) => [name, value] as const),
  )
  const commonNames = attributes.filter(([name]) => name === 'CN').map(([, value]) => value)
  return {
    names: [...commonNames, ...alternativeNames(subjectaltname)],
    attributes: new Set(attributes.map(([name, value]) => `${name}=${value}`)),
  }
}

const identities = new WeakMap<Duplex, CallerIdentity>()

/**
 * Whom the verified certificate of a connection names; null: it has none.
 *
 * @param socket of a connection that `admitsCertificate` has admitted
 */
export const identityOfCaller = (socket: Duplex): CallerIdentity | null =>
  identities.get(socket) ?? null

/**
 * Reads the certificate of a connection whose handshake is complete. False: the connection is refused, because a
 * certificate is required, or is not one that the authorities of callers have signed and that is valid now.
 *
 * @param socket a connection whose handshake is complete
 * @param isRequired whether a connection without a certificate is refused
 */
export function admitsCertificate(socket: TLSSocket, isRequired: boolean): boolean {
  const certificate = socket.getPeerCertificate()
  if (certificate?.subject === undefined) return !isRequired
  if (!socket.authorized) return false
  identities.set(socket, identityOf(certificate))
  return true
}

/** `CN=bidder` or `O=Acme, OU=Bids`: attributes of the subject. Anything else is a name. */
const attributeList = /^[A-Za-z]+=/

/** Whether a certificate is of one of the subjects. */
export function subjectCheck(subjects: readonly string[]): (identity: CallerIdentity) => boolean {
  const names = new Set(subjects.filter((subject) => !attributeList.test(subject)))
  const lists = subjects
    .filter((subject) => attributeList.test(subject))
    .map((subject) => subject.split(/\s*,\s*(?=[A-Za-z]+=)/))
  return (identity) =>
    identity.names.some((name) => names.has(name)) ||
    lists.some((list) => list.every((attribute) => identity.attributes.has(attribute)))
}

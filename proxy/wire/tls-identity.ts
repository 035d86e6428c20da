/** How bidweir authenticates itself to endpoints over TLS, and whom it trusts there. */
import { constants, createHash, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import {
  type ConnectionOptions,
  checkServerIdentity,
  createSecureContext,
  type PeerCertificate,
  type SecureContext,
} from 'node:tls'
import { certificatesOf } from '../../opd/base/tls-pair.ts'

export interface TlsSettings {
  /** Authorities in PEM; undefined: those of Node.js. */
  ca?: string | undefined
  /** Client certificate and its key in PEM. */
  cert?: string | undefined
  key?: string | undefined
  /** The name that the certificate must have, and that is sent; undefined: the host of the endpoint. */
  servername?: string | undefined
  minVersion: 'TLSv1.2' | 'TLSv1.3'
  /** Hashes of public keys, `sha256//…`, of which the certificate must have one; empty: any. */
  pin: readonly string[]
}

/** The hash of the public key, as `curl --pinnedpubkey` takes it. */
function pinOf(certificate: PeerCertificate): string {
  const { publicKey } = new X509Certificate(certificate.raw)
  const key = publicKey.export({ type: 'spki', format: 'der' })
  return `sha256//${createHash('sha256').update(key).digest('base64')}`
}

/** Milliseconds since the epoch at which the first certificate of a text in PEM expires. */
const expiryOf = (pem: string): number =>
  Math.min(...certificatesOf(pem).map(({ validTo }) => Date.parse(validTo)))

export class TlsIdentity {
  private readonly settings: TlsSettings
  /** Made at the first connection: the certificates of all authorities take long to load. */
  private context: SecureContext | null = null
  /** When the client certificate and the first of the authorities expire, in milliseconds since the epoch. */
  readonly expiries: readonly { certificate: 'client' | 'ca'; expires: number }[]

  constructor(settings: TlsSettings) {
    const { ca, cert } = settings
    this.settings = settings
    this.expiries = [
      ...(cert === undefined ? [] : [{ certificate: 'client' as const, expires: expiryOf(cert) }]),
      ...(ca === undefined ? [] : [{ certificate: 'ca' as const, expires: expiryOf(ca) }]),
    ]
  }

  /** @param settings would make the same identity */
  equals(settings: TlsSettings): boolean {
    return JSON.stringify(this.settings) === JSON.stringify(settings)
  }

  /**
   * Whether both trust the same endpoints.
   *
   * @param other the identity before a change: its connections may then be used further
   */
  trustsLike(other: TlsIdentity): boolean {
    const trust = ({ settings: { ca, servername, minVersion, pin } }: TlsIdentity) =>
      JSON.stringify([ca, servername, minVersion, pin])
    return trust(this) === trust(other)
  }

  private get secureContext(): SecureContext {
    const { ca, cert, key, minVersion } = this.settings
    this.context ??= createSecureContext({
      ...{ minVersion, secureOptions: constants.SSL_OP_NO_RENEGOTIATION },
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined || key === undefined ? {} : { cert, key }),
    })
    return this.context
  }

  /**
   * For `tls.connect`.
   *
   * @param host of the endpoint, a name or an address without brackets
   */
  optionsFor(host: string): ConnectionOptions {
    const { servername = host, pin } = this.settings
    return {
      // RFC 6066 3: an address is no server name. Node verifies the certificate for the host then.
      servername: isIP(servername) === 0 ? servername : '',
      secureContext: this.secureContext,
      ...(pin.length === 0
        ? {}
        : {
            // A resumed session is of a connection that has passed this check.
            checkServerIdentity: (name: string, certificate: PeerCertificate) =>
              checkServerIdentity(name, certificate) ??
              (pin.includes(pinOf(certificate))
                ? undefined
                : new Error(
                    `the public key of the endpoint is ${pinOf(certificate)}, not the pin`,
                  )),
          }),
    }
  }
}

/** Of suppliers without `tls`. One for all: it has the certificates of all authorities. */
export const systemTls = new TlsIdentity({ minVersion: 'TLSv1.2', pin: [] })

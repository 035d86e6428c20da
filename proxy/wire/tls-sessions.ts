/**
 * TLS to the endpoints of one origin. The last session is offered to the next connection, whose handshake then needs no
 * certificates.
 */
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import type { TlsIdentity } from './tls-identity.ts'

export class TlsSessions {
  private readonly host: string
  private readonly identity: TlsIdentity
  private readonly protocols: string[]
  private session: Buffer | undefined

  /**
   * @param host the name that the certificate must have, or an address, if the identity does not name another
   * @param protocols for ALPN, the preferred one first
   */
  constructor(host: string, identity: TlsIdentity, protocols = ['http/1.1']) {
    this.protocols = protocols
    this.host = host
    this.identity = identity
  }

  /**
   * @param target for `tls.connect`: host, port, how the name is looked up, and how bytes are read
   * @param onConnected called once the certificate is verified
   */
  connect(target: ConnectionOptions, onConnected: () => void): TLSSocket {
    const { host, identity, session } = this
    const socket = connect({
      ...target,
      ...(session === undefined ? {} : { session }),
      ...identity.optionsFor(host),
      ALPNProtocols: this.protocols,
    })
    // A constructor of TLSSocket ignores `noDelay`.
    socket.setNoDelay(true)
    // Emitted after the certificate is verified.
    socket.on('session', (next: Buffer) => {
      this.session = next
    })
    socket.on('secureConnect', onConnected)
    // The next handshake is a full one: a server may have failed because of the session.
    socket.on('error', () => {
      if (!socket.authorized) this.session = undefined
    })
    return socket
  }
}

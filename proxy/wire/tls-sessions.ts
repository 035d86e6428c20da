/**
 * TLS to the endpoints of one origin. The last session is offered to the next connection, whose handshake then needs no
 * certificates.
 */
import { constants } from 'node:crypto'
import { isIP } from 'node:net'
import {
  type ConnectionOptions,
  connect,
  createSecureContext,
  type SecureContext,
  type TLSSocket,
} from 'node:tls'

/** One context for all origins: it has the certificates of all authorities, which take long to load. */
class SharedContext {
  private context: SecureContext | null = null

  get secureContext(): SecureContext {
    this.context ??= createSecureContext({ secureOptions: constants.SSL_OP_NO_RENEGOTIATION })
    return this.context
  }
}
const shared = new SharedContext()

export class TlsSessions {
  private readonly servername: string
  private session: Buffer | undefined

  /** `host`: the name that the certificate must have, or an address. */
  constructor(host: string) {
    // RFC 6066 3: an address is no server name. Node verifies the certificate for the host then.
    this.servername = isIP(host) === 0 ? host : ''
  }

  connect(target: ConnectionOptions, onConnected: () => void): TLSSocket {
    const { servername, session } = this
    const socket = connect({
      ...target,
      ...(session === undefined ? {} : { session }),
      servername,
      secureContext: shared.secureContext,
      ALPNProtocols: ['http/1.1'],
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

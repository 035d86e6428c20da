/** The head of a request in HTTP/2 (RFC 9113 8.1 to 8.3), as far as gRPC reads it. */

/** Bytes of a header list, counted as in RFC 9113 6.5.2. */
export const maxHeaderList = 16 * 1024
/** Characters of a value that is kept. Paths of methods and probes, and what gRPC sends, are far shorter. */
const maxKept = 256

const fieldName = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/
const forbiddenInValues = /[\0\r\n]/
/** Fields of a connection, which HTTP/2 does not have. */
const ofConnection = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade'],
])

export class RequestHead {
  method = ''
  scheme = ''
  /** With its query. */
  path = ''
  contentType = ''
  /** grpc-timeout and grpc-encoding, as they were sent. */
  timeout = ''
  encoding = ''
  /** Content-Length; null: absent. */
  contentLength: number | null = null
  /** The head breaks a rule, or is too large: its stream is reset. */
  isMalformed = false
  /** Fields that come after the body. */
  private readonly isTrailers: boolean
  private hasFields = false
  private size = 0

  constructor(isTrailers = false) {
    this.isTrailers = isTrailers
  }

  readonly add = (name: string, value: string, size: number): void => {
    this.size += size
    if (this.size > maxHeaderList || !fieldName.test(name) || forbiddenInValues.test(value))
      this.isMalformed = true
    else if (name.charCodeAt(0) === 0x3a) this.pseudo(name, value)
    else {
      this.hasFields = true
      this.field(name, value)
    }
  }

  /** Call it after the last field. */
  complete(): void {
    if (this.isTrailers) return
    if (this.method === '' || this.scheme === '' || this.path === '') this.isMalformed = true
  }

  private pseudo(name: string, value: string): void {
    const isLate = this.hasFields || this.isTrailers
    if (value.length > maxKept && name !== ':authority') this.isMalformed = true
    else if (name === ':method' && this.method === '' && !isLate) this.method = value
    else if (name === ':scheme' && this.scheme === '' && !isLate) this.scheme = value
    else if (name === ':path' && this.path === '' && !isLate) this.path = value
    else if (name !== ':authority' || isLate) this.isMalformed = true
  }

  private kept(value: string): string {
    if (value.length <= maxKept) return value
    this.isMalformed = true
    return ''
  }

  private field(name: string, value: string): void {
    switch (name) {
      case 'content-type':
        this.contentType = this.kept(value)
        break
      case 'grpc-timeout':
        this.timeout = this.kept(value)
        break
      case 'grpc-encoding':
        this.encoding = this.kept(value)
        break
      case 'te':
        if (value !== 'trailers') this.isMalformed = true
        break
      case 'content-length':
        if (/^\d{1,15}$/.test(value) && (this.contentLength ?? Number(value)) === Number(value))
          this.contentLength = Number(value)
        else this.isMalformed = true
        break
      default:
        if (ofConnection.has(name)) this.isMalformed = true
    }
  }
}

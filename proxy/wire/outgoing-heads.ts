/**
 * Heads that bidweir sends, without the framing of their bodies. A head is a flat list for node:http and undici, and text for
 * the fast lane. The text is made once: a peer that repeats its head gets the same one each time (head-templates.ts).
 */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Body } from '../../opd/json/scanner.ts'
import { header, headText } from './headers.ts'
import { isTls } from './socket-reads.ts'

/** A string of one part: one of several parts would be put together again with each request that is written. */
const flat = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')

/** The beginning of heads for one endpoint: the first line, and the endpoint's own fields. */
export class RequestStart {
  readonly path: string
  readonly method: 'POST' | 'GET' | 'OPTIONS'
  readonly fields: readonly string[]
  readonly text: string

  /**
   * @param path with its query
   * @param fields names and values in turn
   */
  constructor(path: string, fields: readonly string[], method: RequestStart['method'] = 'POST') {
    this.path = path
    this.fields = fields
    this.method = method
    this.text = flat(headText(`${method} ${path} HTTP/1.1\r\n`, fields))
  }
}

/** Fields at the end of heads for several endpoints. Their text is made once. */
export class CommonFields {
  readonly fields: readonly string[]
  private lines: string | null = null

  constructor(fields: readonly string[]) {
    this.fields = fields
  }

  /** Up to the value of the Content-Length. */
  get text(): string {
    this.lines ??= flat(`${headText('', this.fields)}Content-Length: `)
    return this.lines
  }
}

const noFields = new CommonFields([])

export class OutgoingRequest {
  private readonly start: RequestStart
  private readonly startText: string
  private readonly common: CommonFields
  private lines: string | null = null

  /** @param startText that of `start`: a caller that has it at hand spares the processor the way to it */
  constructor(start: RequestStart, common = noFields, startText = start.text) {
    this.start = start
    this.startText = startText
    this.common = common
  }

  get path(): string {
    return this.start.path
  }

  get method(): RequestStart['method'] {
    return this.start.method
  }

  get fields(): readonly string[] {
    return [...this.start.fields, ...this.common.fields]
  }

  /** Up to the value of its Content-Length. */
  get text(): string {
    this.lines ??= this.startText + this.common.text
    return this.lines
  }

  /** @param length bytes of the body */
  fieldsWith(length: number): string[] {
    return [...this.fields, 'Content-Length', String(length)]
  }
}

export class OutgoingResponse {
  readonly status: number
  readonly message: string
  readonly fields: readonly string[]
  /** Whether it has a Date. */
  readonly dated: boolean
  private lines: string | null = null
  private ending = ''
  private complete = ''

  constructor(status: number, message: string, fields: readonly string[]) {
    this.status = status
    this.message = message
    this.fields = fields
    this.dated = header(fields, 'date') !== undefined
  }

  get text(): string {
    const { status, message, fields } = this
    const reason = message === '' ? (STATUS_CODES[status] ?? '') : message
    this.lines ??= headText(`HTTP/1.1 ${status} ${reason}\r\n`, fields)
    return this.lines
  }

  /**
   * The text and its ending: most responses with this head have the same one.
   *
   * @param ending lines that follow the fields, up to the blank line or to the value of Content-Length
   */
  textWith(ending: string): string {
    if (ending !== this.ending) {
      this.ending = ending
      this.complete = this.text + ending
    }
    return this.complete
  }

  /** @param length the Content-Length; null: there is none */
  fieldsWith(length: number | null): string[] {
    return length === null ? [...this.fields] : [...this.fields, 'Content-Length', String(length)]
  }
}

/** Writes a message of the fast lane: head and body. */

/** Head and body up to this length are written at once. */
export const singleWrite = 16 * 1024

/**
 * Messages are put together here from `start` on, one over another. Node would copy a string of several parts to a new string
 * first, and then to the memory that is written. A message that its socket has not sent remains, and the next one is behind it.
 */
const blockLength = 4 * singleWrite
let block = Buffer.allocUnsafeSlow(blockLength)
let start = 0

/** What is written remains as it is: its socket has not sent it. */
function keep(to: number): void {
  start = to
  if (blockLength - start >= singleWrite) return
  block = Buffer.allocUnsafeSlow(blockLength)
  start = 0
}

/**
 * Writes a head and a body with as few system calls as possible.
 *
 * @param socket need not be drained
 * @param head latin1, up to the value of its Content-Length, which is added
 * @param body its length is the Content-Length
 */
export function writeMessage(socket: Socket, head: string, body: Body): void {
  const length = `${body.length}\r\n\r\n`
  const lengthAt = start + head.length
  const bodyAt = lengthAt + length.length
  const to = bodyAt + body.length
  if (to - start <= singleWrite) {
    block.write(head, start, 'latin1')
    block.write(length, lengthAt, 'latin1')
    if (typeof body === 'string') block.write(body, bodyAt, 'latin1')
    else block.set(body, bodyAt)
    // TLS has encrypted or copied it when the call returns, unless the socket has an earlier message to write.
    const isTaken = isTls(socket) && !socket.connecting && socket.writableLength === 0
    socket.write(block.subarray(start, to))
    if (socket.writableLength > 0 && !isTaken) keep(to)
  } else {
    socket.cork()
    socket.write(head + length, 'latin1')
    if (typeof body === 'string') socket.write(body, 'latin1')
    else socket.write(body)
    socket.uncork()
  }
}

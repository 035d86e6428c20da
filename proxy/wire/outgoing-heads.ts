/**
 * Heads that bidweir sends, without the framing of their bodies. A head is a flat list for node:http and undici, and text for
 * the fast lane. The text is made once: a peer that repeats its head gets the same one each time (head-templates.ts).
 */
import { STATUS_CODES } from 'node:http'
import { headText } from './fields.ts'
import { header } from './headers.ts'

/** Fields at the end of heads for several endpoints. Their text is made once. */
export class CommonFields {
  readonly fields: readonly string[]
  private lines: string | null = null

  constructor(fields: readonly string[]) {
    this.fields = fields
  }

  get text(): string {
    this.lines ??= headText('', this.fields)
    return this.lines
  }
}

const noFields = new CommonFields([])

export class OutgoingRequest {
  readonly path: string
  readonly method: 'POST' | 'GET' | 'OPTIONS'
  private readonly own: readonly string[]
  private readonly common: CommonFields
  private lines: string | null = null

  /** `own`: the fields before the common ones. */
  constructor(
    path: string,
    own: readonly string[],
    method: OutgoingRequest['method'] = 'POST',
    common = noFields,
  ) {
    this.path = path
    this.own = own
    this.method = method
    this.common = common
  }

  get fields(): readonly string[] {
    return [...this.own, ...this.common.fields]
  }

  /** Up to the value of its Content-Length. */
  get text(): string {
    const { method, path, own, common } = this
    this.lines ??= `${headText(`${method} ${path} HTTP/1.1\r\n`, own)}${common.text}Content-Length: `
    return this.lines
  }

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
  private whole = ''

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

  /** The text and its ending: most responses with this head have the same one. */
  textWith(ending: string): string {
    if (ending !== this.ending) {
      this.ending = ending
      this.whole = this.text + ending
    }
    return this.whole
  }

  /** `length` null: there is no Content-Length. */
  fieldsWith(length: number | null): string[] {
    return length === null ? [...this.fields] : [...this.fields, 'Content-Length', String(length)]
  }
}

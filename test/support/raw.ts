/** A caller that writes bytes and reads bytes. */
import type { Socket } from 'node:net'
import { callTo } from './transport.ts'

export interface RawAnswer {
  status: number
  head: string
  headers: Record<string, string>
  body: string
  /** Everything the peer sent, as latin1. */
  bytes: string
  /** The peer closed the connection. */
  closed: boolean
}

/** Sends bytes and reads until the peer closes, or until `done` says the bytes suffice. */
export function raw(
  port: number,
  bytes: string | Buffer | readonly (string | Buffer)[],
  done: (text: string) => boolean = isComplete,
  open: (port: number) => Socket = callTo,
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const socket = open(port)
    let text = ''
    const finish = (closed: boolean) => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ ...parse(text), bytes: text, closed })
    }
    const timer = setTimeout(
      () =>
        reject(new Error(`no end of the answer in 60 s: ${JSON.stringify(text.slice(0, 300))}`)),
      60_000,
    )
    socket.on('error', () => finish(true))
    socket.on('close', () => finish(true))
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      if (done(text)) finish(false)
    })
    for (const part of Array.isArray(bytes) ? bytes : [bytes]) socket.write(part)
  })
}

/** Writes one segment; a peer in this process has been able to read it by then. */
export const segment = (socket: Socket, bytes: string | Buffer): Promise<void> =>
  new Promise((resolve) => socket.write(bytes, () => setImmediate(() => setImmediate(resolve))))

/** A caller that sends one request after another on one connection. */
export function keptOpen(port: number) {
  const socket = callTo(port).on('error', () => {})
  const ask = (bytes: Buffer) =>
    new Promise<RawAnswer>((resolve) => {
      let text = ''
      const finish = (closed: boolean) => {
        socket.off('data', onData).off('close', onClose)
        resolve({ ...parse(text), bytes: text, closed })
      }
      const onClose = () => finish(true)
      const onData = (chunk: Buffer) => {
        text += chunk.toString('latin1')
        if (isComplete(text)) finish(false)
      }
      socket.on('data', onData).on('close', onClose)
      socket.write(bytes)
    })
  return { ask, end: () => void socket.destroy() }
}

/** One whole answer by Content-Length, a bodiless status, or the last chunk. */
function isComplete(text: string): boolean {
  const head = text.indexOf('\r\n\r\n')
  if (head < 0) return false
  const { status, headers } = parse(text)
  if (status === 204 || status === 304) return true
  const length = headers['content-length']
  if (length !== undefined) return text.length >= head + 4 + Number(length)
  return headers['transfer-encoding'] === 'chunked' && text.endsWith('0\r\n\r\n')
}

function parse(text: string): Omit<RawAnswer, 'bytes' | 'closed'> {
  const end = text.indexOf('\r\n\r\n')
  const head = end < 0 ? text : text.slice(0, end)
  const [line = '', ...rest] = head.split('\r\n')
  const headers = Object.fromEntries(
    rest.map((row) => {
      const colon = row.indexOf(':')
      return [row.slice(0, colon).toLowerCase(), row.slice(colon + 1).trim()]
    }),
  )
  return {
    status: Number(line.split(' ')[1] ?? 0),
    head,
    headers,
    body: end < 0 ? '' : text.slice(end + 4),
  }
}

/** A bid request as bytes. */
export function post(path: string, body: string | Buffer, headers = ''): Buffer {
  const bytes = Buffer.from(body as string)
  return Buffer.concat([
    Buffer.from(
      `POST ${path} HTTP/1.1\r\nHost: bids.example\r\nContent-Type: application/json\r\n${headers}Content-Length: ${bytes.length}\r\n\r\n`,
      'latin1',
    ),
    bytes,
  ])
}

/** Keep-alive connections that carry ready requests: closed loop, or each at the moment it is due. */
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { Histogram } from '../proxy/histogram.ts'

interface Load {
  port: number
  connections: number
  /** Requests a second; 0: closed loop, each connection sends when it has its answer. */
  rate: number
  /** Milliseconds; what is answered in `warm` is not measured. */
  warm: number
  measure: number
  /** The next request; null: there are no more. */
  next: () => Buffer | null
  /** Whether the answer is what it should be. */
  good: (status: number, body: string) => boolean
}

export interface Seen {
  answers: number
  bad: number
  seconds: number
  /** Milliseconds from the moment a request was due. */
  p50: number
  p99: number
  max: number
  /** Of the first answer that was not as it should be. */
  fault: string
}

interface Line {
  socket: Socket
  since: number
  data: Buffer
}

const headEnd = Buffer.from('\r\n\r\n')

export async function drive(load: Load): Promise<Seen> {
  const { port, connections, rate, next, good } = load
  const latency = new Histogram()
  const seen = { answers: 0, bad: 0, fault: '' }
  const free: Line[] = []
  const backlog: number[] = []
  let measuring = false
  let stopped = false
  let out = 0
  let exhausted = false
  /** When the last request was answered. */
  let last = 0

  function send(line: Line, since: number): void {
    if (stopped) return
    const request = next()
    if (request === null) {
      exhausted = true
      return
    }
    line.since = since
    out++
    line.socket.write(request)
  }
  function go(line: Line): void {
    if (rate === 0) send(line, performance.now())
    else if (backlog.length > 0) send(line, backlog.shift()!)
    else free.push(line)
  }
  /** One request is out per connection, so nothing follows an answer. */
  function take(line: Line, chunk: Buffer): void {
    line.data = line.data.length === 0 ? chunk : Buffer.concat([line.data, chunk])
    const end = line.data.indexOf(headEnd)
    if (end < 0) return
    const head = line.data.toString('latin1', 0, end)
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
    if (line.data.length < end + 4 + length) return
    const status = Number(head.slice(9, 12))
    const body = line.data.toString('utf8', end + 4)
    line.data = Buffer.alloc(0)
    out--
    const fine = good(status, body)
    if (!fine) seen.fault ||= `${status} ${body.slice(0, 200)}`
    if (measuring) {
      seen.answers++
      if (!fine) seen.bad++
      last = performance.now()
      latency.add(last - line.since)
    }
    go(line)
  }
  const open = () =>
    new Promise<Line>((resolve, reject) => {
      const line: Line = { socket: connect(port, '127.0.0.1'), since: 0, data: Buffer.alloc(0) }
      line.socket.setNoDelay(true)
      line.socket.once('connect', () => resolve(line))
      line.socket.on('data', (chunk: Buffer) => take(line, chunk))
      line.socket.on('error', (error) => {
        seen.bad++
        seen.fault ||= error.message
        reject(error)
      })
    })
  const lines = await Promise.all(Array.from({ length: connections }, open))
  let timer: NodeJS.Timeout | undefined
  if (rate === 0) for (const line of lines) send(line, performance.now())
  else {
    free.push(...lines)
    const began = performance.now()
    let due = 0
    timer = setInterval(() => {
      const now = performance.now()
      for (; began + (due * 1000) / rate <= now; due++) {
        const at = began + (due * 1000) / rate
        const line = free.pop()
        if (line !== undefined) send(line, at)
        else backlog.push(at)
      }
    }, 1)
  }
  await wait(load.warm)
  measuring = true
  const began = performance.now()
  await wait(load.measure)
  measuring = false
  const seconds = ((exhausted ? last : performance.now()) - began) / 1000
  stopped = true
  clearInterval(timer)
  // what is out is answered: its rows are counted afterwards
  while (out > 0) await wait(5)
  for (const { socket } of lines) socket.destroy()
  const at = (share: number) => latency.quantile(share)
  return { ...seen, seconds, p50: at(0.5), p99: at(0.99), max: at(1) }
}

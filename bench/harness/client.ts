/** A load generator: keep-alive connections that send prepared requests in a closed loop, or at a rate. */
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { cpu } from './process.ts'
import { Histogram } from './statistics.ts'
import { firstMessage } from './traffic.ts'

export interface Load {
  port: number
  /** Over TLS; the certificate is not verified. */
  secure?: boolean
  /** A connection is closed after one response, and another is opened: over TLS with a whole handshake, or a resumed session. */
  renew?: 'full' | 'resumed'
  /** 0: a request that finds no idle connection opens one. */
  connections: number
  /** Requests a second; 0: closed loop, each connection sends when it has its response. */
  rate: number
  /** Milliseconds. The window counts the responses that came in it; at a rate, those of the requests that were due in it. */
  warm: number
  measure: number
  /** The next request; null: there are no more, which ends the run. */
  next: () => Buffer | null
  /** The kind under which a response is counted; `failed` if it is not the expected response. */
  kind: (response: Response) => string
  /** Processes whose CPU time is taken over the measured window, group by group. */
  watch?: readonly (readonly number[])[]
}

export interface Response {
  status: number
  /** Up to the empty line. */
  head: string
  body: () => string
  /** Milliseconds since the request was due. */
  took: number
}

export interface Latency {
  count: number
  /** Milliseconds since a request was due. */
  p50: number
  p90: number
  p99: number
  p999: number
  max: number
}

export interface Outcome extends Latency {
  seconds: number
  /** Responses of a kind. */
  kinds: Record<string, Latency>
  /** `failed` responses and connections that were lost with a request. */
  failed: number
  /** The first of them. */
  fault: string
  /** CPU microseconds in the window: of this process, and of each group that was watched. */
  cpu: number
  watched: number[]
}

interface Line {
  socket: Socket
  since: number
  counted: boolean
  /** A request waits for its response. Bytes without a request, such as a 408, are not read. */
  asked: boolean
  data: Buffer | null
}

/** Milliseconds that responses may take after the window. */
const drainTime = 10_000

/** Null: `data` does not contain the whole response. A connection has one request at a time, so nothing follows. */
function responseIn(data: Buffer, since: number): Response | null {
  const message = firstMessage(data)
  if (message === null) return null
  const { head } = message
  return {
    status: Number(head.slice(9, 12)),
    head,
    body: () => data.toString('utf8', head.length + 4),
    took: performance.now() - since,
  }
}

const summary = (times: Histogram): Latency => ({
  ...{ count: times.count, p50: times.quantile(0.5), p90: times.quantile(0.9) },
  ...{ p99: times.quantile(0.99), p999: times.quantile(0.999), max: times.quantile(1) },
})

class Driver {
  readonly all = new Histogram()
  readonly kinds = new Map<string, Histogram>()
  fault = ''
  measuring = false
  stopped = false
  exhausted = false
  /** Requests without a response yet. */
  out = 0
  /** When the last response came. */
  last = 0
  private readonly load: Load
  /** Of TLS, for the next connection. */
  private session: Buffer | null = null
  private readonly lines = new Set<Line>()
  private readonly free: Line[] = []
  private readonly backlog: { since: number; counted: boolean }[] = []

  constructor(load: Load) {
    this.load = load
  }

  get idle(): boolean {
    return this.out === 0 && this.backlog.length === 0
  }

  async open(): Promise<Line> {
    const { port, secure = false } = this.load
    const target = { port, host: '127.0.0.1' }
    const resumed = this.session === null ? {} : { session: this.session }
    const socket = secure
      ? connectTls({ ...target, rejectUnauthorized: false, ...resumed })
      : connect(target)
    if (this.load.renew === 'resumed')
      socket.on('session', (session: Buffer) => {
        this.session = session
      })
    socket.setNoDelay(true)
    const line: Line = { socket, since: 0, counted: false, asked: false, data: null }
    this.lines.add(line)
    await new Promise<void>((resolve) => {
      socket.once(secure ? 'secureConnect' : 'connect', resolve).once('close', resolve)
      socket.on('error', () => {})
      socket.on('data', (chunk: Buffer) => this.read(line, chunk))
      socket.on('close', () => this.closed(line))
    })
    return line
  }

  /** A request that is due at `since`. */
  due(since: number): void {
    const line = this.free.pop()
    if (line !== undefined) this.send(line, since, this.measuring)
    else if (this.load.connections > 0) this.backlog.push({ since, counted: this.measuring })
    else {
      this.out++
      const counted = this.measuring
      void this.open().then((line) => {
        this.out--
        this.send(line, since, counted)
      })
    }
  }

  /** Sends the next request of the connection, or marks it as free. */
  go(line: Line): void {
    const waiting = this.backlog.shift()
    if (waiting !== undefined) this.send(line, waiting.since, waiting.counted)
    else if (this.load.rate > 0) this.free.push(line)
    else if (!this.stopped) this.send(line, performance.now(), this.measuring)
  }

  close(): void {
    this.stopped = true
    for (const { socket } of this.lines) socket.destroy()
  }

  private send(line: Line, since: number, counted: boolean): void {
    const request = this.load.next()
    if (request === null) {
      this.exhausted = true
      return
    }
    this.out++
    Object.assign(line, { since, counted, asked: true })
    line.socket.write(request)
  }

  private read(line: Line, chunk: Buffer): void {
    if (!line.asked) return
    line.data = line.data === null ? chunk : Buffer.concat([line.data, chunk])
    const response = responseIn(line.data, line.since)
    if (response === null) return
    line.data = null
    this.ended(line, this.load.kind(response), () => `${response.status} ${response.body()}`)
    if (this.load.renew !== undefined || /\r\nconnection: *close/i.test(response.head))
      line.socket.destroy()
    else this.go(line)
  }

  private ended(line: Line, kind: string, what: () => string): void {
    line.asked = false
    this.out--
    if (kind === 'failed') this.fault ||= what().slice(0, 200)
    if (!(this.load.rate === 0 ? this.measuring : line.counted)) return
    this.last = performance.now()
    const times = this.kinds.get(kind) ?? new Histogram()
    this.kinds.set(kind, times)
    for (const series of [this.all, times]) series.addTime(this.last - line.since)
  }

  private closed(line: Line): void {
    if (!this.lines.delete(line)) return
    if (line.asked) this.ended(line, 'failed', () => 'connection lost')
    const index = this.free.indexOf(line)
    if (index >= 0) this.free.splice(index, 1)
    if (!this.stopped && this.load.connections > 0) void this.open().then((next) => this.go(next))
  }
}

/** Waits so long, or until there are no more requests. */
async function waitFor(ms: number, driver: Driver): Promise<void> {
  const end = performance.now() + ms
  for (let left = ms; left > 0 && !driver.exhausted; left = end - performance.now())
    await wait(Math.min(left, 100))
}

export async function drive(load: Load): Promise<Outcome> {
  const { rate, watch = [] } = load
  const driver = new Driver(load)
  const lines = await Promise.all(Array.from({ length: load.connections }, () => driver.open()))
  driver.measuring = load.warm === 0
  let [cpuBefore, watchedBefore] = [process.cpuUsage(), watch.map(cpu)]
  let began = performance.now()
  for (const line of lines) driver.go(line)
  let due = 0
  const from = began
  const timer = setInterval(() => {
    for (const now = performance.now(); rate > 0 && from + (due * 1000) / rate <= now; due++)
      driver.due(from + (due * 1000) / rate)
  }, 1)
  if (load.warm > 0) {
    await waitFor(load.warm, driver)
    driver.measuring = true
    began = performance.now()
    ;[cpuBefore, watchedBefore] = [process.cpuUsage(), watch.map(cpu)]
  }
  await waitFor(load.measure, driver)
  const { user, system } = process.cpuUsage(cpuBefore)
  const watched = watch.map((pids, index) => cpu(pids) - watchedBefore[index]!)
  clearInterval(timer)
  driver.measuring = false
  driver.stopped = true
  const ended = performance.now()
  while (!driver.idle && performance.now() - ended < drainTime) await wait(5)
  driver.close()
  const kinds = [...driver.kinds].map(([kind, times]) => [kind, summary(times)] as const)
  const unanswered = driver.idle ? 0 : driver.out
  const failed = (driver.kinds.get('failed')?.count ?? 0) + unanswered
  return {
    ...summary(driver.all),
    ...{ kinds: Object.fromEntries(kinds), failed, fault: driver.fault },
    seconds: (Math.max(driver.last, driver.exhausted ? 0 : ended) - began) / 1000,
    ...{ cpu: user + system, watched },
  }
}

/** The load of the benchmark: raw sockets, ready requests, closed loop or a fixed rate. A child process. */
import { connect, type Socket } from 'node:net'
import { requestBodies } from './bodies.ts'
import { Histogram } from './histogram.ts'

export interface Job {
  port: number
  /** Paths taken in turn, such as `/bid/bench?kind=vast`. */
  paths: string[]
  connections: number
  /** Requests a second; 0: closed loop, each connection sends when it has its answer. */
  rate: number
  /** Milliseconds. */
  warm: number
  measure: number
}

export interface Outcome {
  answers: number
  /** Answers that were neither 200 nor 204, no-bids of the proxy's own (overload, timeout), and connections lost. */
  bad: number
  seconds: number
  /** Milliseconds. */
  p50: number
  p90: number
  p99: number
  max: number
  /** Microseconds of the source's own CPU time in the window. */
  cpu: number
  /** Fixed rate only: requests that found no free connection in time. */
  unsent: number
}

const bodies = requestBodies(256)
const headEnd = Buffer.from('\r\n\r\n')
const lastChunk = Buffer.from('0\r\n\r\n')

/** Stands for a no-bid that the supplier never sent. */
const refused = 1

function requests(paths: string[]): Buffer[] {
  return bodies.map((body, at) => {
    const path = paths[at % paths.length]!
    const head = `POST ${path} HTTP/1.1\r\nHost: bids.example\r\nContent-Type: application/json\r\nX-OpenRTB-Version: 2.6\r\nContent-Length: ${body.length}\r\n\r\n`
    return Buffer.concat([Buffer.from(head), body])
  })
}

/** Status of the answer once `data` holds all of it, else 0. One request is out per connection, so nothing follows. */
function status(data: Buffer): number {
  const end = data.indexOf(headEnd)
  if (end < 0) return 0
  const code = Number(data.toString('latin1', 9, 12))
  const head = data.toString('latin1', 0, end)
  if (code === 204) return /\r\nx-bidweir-reason:/i.test(head) ? refused : code
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length !== undefined) return data.length >= end + 4 + Number(length) ? code : 0
  return data.subarray(-5).equals(lastChunk) ? code : 0
}

async function run(job: Job): Promise<Outcome> {
  const ready = requests(job.paths)
  const latency = new Histogram()
  const free: Line[] = []
  const backlog: number[] = []
  let next = 0
  let measuring = false
  let stopped = false
  const seen = { answers: 0, bad: 0, unsent: 0 }

  interface Line {
    socket: Socket
    since: number
    data: Buffer | null
    /** A request is out: nobody asked for what comes without one, such as the end of a silent connection. */
    asked: boolean
  }
  const send = (line: Line, since: number) => {
    line.since = since
    line.asked = true
    line.socket.write(ready[next++ % ready.length]!)
  }
  const answered = (line: Line, code: number) => {
    const now = performance.now()
    if (measuring) {
      seen.answers++
      if (code !== 200 && code !== 204) seen.bad++
      latency.add(now - line.since)
    }
    go(line)
  }
  const go = (line: Line) => {
    if (stopped) return
    if (job.rate === 0) send(line, performance.now())
    else if (backlog.length > 0) send(line, backlog.shift()!)
    else free.push(line)
  }
  const open = () =>
    new Promise<Line>((resolve) => {
      const socket = connect(job.port, '127.0.0.1')
      const line: Line = { socket, since: 0, data: null, asked: false }
      line.socket.setNoDelay(true)
      line.socket.once('connect', () => resolve(line))
      line.socket.on('data', (chunk: Buffer) => {
        if (!line.asked) return
        line.data = line.data === null ? chunk : Buffer.concat([line.data, chunk])
        const code = status(line.data)
        if (code === 0) return
        line.data = null
        line.asked = false
        answered(line, code)
      })
      line.socket.on('error', () => resolve(line))
      line.socket.on('close', () => {
        if (stopped) return
        if (measuring && line.asked) seen.bad++
        const at = free.indexOf(line)
        if (at >= 0) free.splice(at, 1)
        void open().then(go)
      })
    })
  const lines = await Promise.all(Array.from({ length: job.connections }, open))
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

  let timer: NodeJS.Timeout | undefined
  if (job.rate === 0) for (const line of lines) send(line, performance.now())
  else {
    free.push(...lines)
    const started = performance.now()
    let due = 0
    timer = setInterval(() => {
      const now = performance.now()
      for (; started + (due * 1000) / job.rate <= now; due++) {
        const at = started + (due * 1000) / job.rate
        const line = free.pop()
        if (line !== undefined) send(line, at)
        else if (backlog.length < 100_000) backlog.push(at)
        else seen.unsent++
      }
    }, 1)
  }
  await wait(job.warm)
  process.send!({ phase: 'measuring' })
  measuring = true
  const before = process.cpuUsage()
  const started = performance.now()
  await wait(job.measure)
  measuring = false
  const seconds = (performance.now() - started) / 1000
  const { user, system } = process.cpuUsage(before)
  stopped = true
  clearInterval(timer)
  for (const { socket } of lines) socket.destroy()
  const at = (share: number) => latency.quantile(share)
  const shares = { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) }
  return { ...seen, ...shares, seconds, cpu: user + system }
}

process.on('message', async (job: Job) => {
  process.send!({ phase: 'done', outcome: await run(job) })
})

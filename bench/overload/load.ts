/** Requests paced by their arrival, whatever becomes of those before: each on an idle connection, or a new one. */
import { connect, type Socket } from 'node:net'

export interface Tally {
  arrived: number
  /** Answered 200 within the deadline. */
  good: number
  late: number
  refused: number
  failed: number
  /** Milliseconds. */
  goodTimes: number[]
  refusedTimes: number[]
  /** `performance.now()` of each good answer. */
  goodAt: number[]
}

const request = (path: string) =>
  `POST ${path} HTTP/1.1\r\nHost: bids.example\r\nContent-Type: application/json\r\nContent-Length: 46\r\n\r\n${'{"id":"r","imp":[{"id":"1","banner":{"w":1}}]}'.slice(0, 46)}`

export class Load {
  private readonly port: number
  private readonly bytes: string
  private readonly deadline: number
  private readonly idle: Socket[] = []

  constructor(port: number, path: string, deadline: number) {
    this.port = port
    this.bytes = request(path)
    this.deadline = deadline
  }

  /** `rate` requests a second for so many seconds; resolves once all have ended. */
  async run(rate: number, seconds: number): Promise<Tally> {
    const tally: Tally = {
      ...{ arrived: 0, good: 0, late: 0, refused: 0, failed: 0 },
      ...{ goodTimes: [], refusedTimes: [], goodAt: [] },
    }
    const total = Math.round(rate * seconds)
    const began = performance.now()
    const all: Promise<void>[] = []
    while (all.length < total) {
      const due = Math.min(total, Math.floor(((performance.now() - began) * rate) / 1000) + 1)
      while (all.length < due) all.push(this.one(tally))
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    tally.arrived = total
    await Promise.all(all)
    return tally
  }

  private one(tally: Tally): Promise<void> {
    const socket = this.idle.pop() ?? this.open()
    const sent = performance.now()
    socket.write(this.bytes)
    return new Promise((resolve) => {
      let text = ''
      const end = (usable: boolean) => {
        socket.off('data', onData).off('close', onClose)
        if (usable) this.idle.push(socket)
        else socket.destroy()
        resolve()
      }
      const onData = (chunk: Buffer) => {
        text += chunk.toString('latin1')
        const status = Number(text.slice(9, 12))
        const whole = status === 200 ? text.endsWith(']}') : text.includes('\r\n\r\n')
        if (!whole) return
        this.count(tally, status, performance.now() - sent, text)
        end(!/^connection: close/im.test(text) && status !== 503)
      }
      const onClose = () => {
        tally.failed++
        end(false)
      }
      socket.on('data', onData).on('close', onClose)
    })
  }

  private count(tally: Tally, status: number, took: number, text: string): void {
    if (status === 200 && took <= this.deadline) {
      tally.good++
      tally.goodTimes.push(took)
      tally.goodAt.push(performance.now())
    } else if (status === 503 || /^x-bidweir-reason: overload/im.test(text)) {
      tally.refused++
      tally.refusedTimes.push(took)
    } else tally.late++
  }

  private open(): Socket {
    const socket = connect({ port: this.port, host: '127.0.0.1', noDelay: true })
    return socket.on('error', () => {})
  }

  close(): void {
    for (const socket of this.idle) socket.destroy()
  }
}

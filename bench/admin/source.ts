/** The platform of the bench, a child process: asks for prices, keeps the contexts, and reports their wins. */
import { drive, type Seen } from './lines.ts'

export interface Job {
  what: 'prices' | 'notices'
  port: number
  token: string
  connections: number
  rate: number
  warm: number
  measure: number
  /** Bids of one call for prices. */
  bids: number
  /** Prices: stop when this many contexts are at hand. */
  most: number
}

export interface Outcome extends Seen {
  /** Bids priced, or wins that the service has acknowledged; those of the warm-up too. */
  total: number
  /** Contexts at hand, not yet reported. */
  left: number
  /** Microseconds of the source's own CPU time. */
  cpu: number
}

const supplier = 'bench'
let made = 0
/** Ready notices; each is sent once. */
const notices: Buffer[] = []

const head = (line: string, token: string, more = '') =>
  `${line} HTTP/1.1\r\nHost: bids.example\r\nAuthorization: Bearer ${token}\r\n${more}\r\n`

function prices({ token, bids, most }: Job) {
  return () => {
    if (notices.length >= most) return null
    const bid = Array.from({ length: bids }, () => {
      const id = `${process.pid.toString(36)}-${(made++).toString(36)}`
      return { id, impid: '1', price: 1 + (made % 397) / 100, dsp_id: `d${made % 7}`, price_dsp: 6 }
    })
    const publisher = { id: `p${made % 300}` }
    const body = JSON.stringify({
      seatbid: [{ seat: 's', bid }],
      imp: [{ id: '1', bidfloor: 0.4, banner: { w: 300, h: 250 } }],
      site: { domain: `news${made % 300}.example`, publisher },
      device: { geo: { country: 'DEU' }, devicetype: 2 },
    })
    const type = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`
    return Buffer.from(head(`POST /opd/${supplier}_yesbid`, token, type) + body)
  }
}

function keep(body: string): number {
  const entries = JSON.parse(body) as { id: string; modified_price: number; svc_opd: string }[]
  for (const { id, modified_price, svc_opd } of entries)
    notices.push(
      Buffer.from(
        `GET /opd/imp?bid_id=${id}&price=${modified_price}&svc_opd=${svc_opd} HTTP/1.1\r\nHost: bids.example\r\n\r\n`,
      ),
    )
  return entries.length
}

async function run(job: Job): Promise<Outcome> {
  let total = 0
  const { what, port, connections, rate, warm, measure } = job
  const common = { port, connections, rate, warm, measure }
  const before = process.cpuUsage()
  const seen =
    what === 'prices'
      ? await drive({
          ...common,
          next: prices(job),
          good(status, body) {
            if (status !== 200) return false
            total += keep(body)
            return true
          },
        })
      : await drive({
          ...common,
          next: () => notices.pop() ?? null,
          good(status, body) {
            const fine = status === 200 && body.startsWith('{"status":"attributed"')
            if (fine) total++
            return fine
          },
        })
  const { user, system } = process.cpuUsage(before)
  return { ...seen, total, left: notices.length, cpu: user + system }
}

process.on('message', async (job: Job) => {
  process.send!(await run(job))
})

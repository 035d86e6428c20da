/** The platform of the bench, a child process: asks for prices, keeps the contexts, and reports their wins. */
import { drive, type Load, type Outcome } from '../harness/client.ts'

export interface Job
  extends Pick<Load, 'port' | 'connections' | 'rate' | 'warm' | 'measure' | 'watch'> {
  what: 'prices' | 'notices'
  token: string
  /** Bids of one call for prices. */
  bids: number
  /** Prices: stop when this many contexts are at hand. */
  most: number
}

export interface Reported extends Outcome {
  /** Bids priced, or wins that the service has acknowledged; those of the warm-up too. */
  total: number
  /** Contexts at hand, not yet reported. */
  left: number
}

const supplier = 'bench'
let made = 0
/** Ready notices; each is sent once. */
const notices: Buffer[] = []

const head = (line: string, token: string, more = '') =>
  `${line} HTTP/1.1\r\nHost: bids.example\r\nAuthorization: Bearer ${token}\r\n${more}\r\n`

function priceRequest({ token, bids, most }: Job): Buffer | null {
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

async function run(job: Job): Promise<Reported> {
  const { what } = job
  let total = 0
  const outcome = await drive({
    ...job,
    next: () => (what === 'prices' ? priceRequest(job) : (notices.pop() ?? null)),
    kind({ status, body }) {
      if (status !== 200) return 'failed'
      if (what === 'prices') total += keep(body())
      else if (body().startsWith('{"status":"attributed"')) total++
      else return 'failed'
      return 'good'
    },
  })
  return { ...outcome, total, left: notices.length }
}

process.on('message', async (job: Job) => process.send!(await run(job)))

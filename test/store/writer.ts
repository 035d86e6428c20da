/** Eight writers that say on stdout what was acknowledged, until they are killed. */
import { openStore } from '../../admin/store/index.ts'

const [url, round] = process.argv.slice(2) as [string, string]
const log = { info() {}, warn() {}, error() {} }
const store = await openStore(url, { now: Date.now, log })

async function write(writer: number): Promise<never> {
  for (let n = 0; ; n++) {
    const decision = `${round}-${writer}-${n}`
    await store.ledger.record({
      decision,
      event: 'win',
      bidId: decision,
      status: 'attributed',
      by: 'context',
      supplier: 'acme',
      mode: 'revenue',
      arm: 'treated',
      publisher: '',
      domain: '',
      inBa: '1',
      outBa: '1',
      cleared: '1',
      priceDsp: null,
      currency: 'USD',
      margin: '0',
      late: false,
      over: false,
      reason: null,
      decidedAt: 0,
      at: Date.now(),
    })
    process.stdout.write(`${decision}\n`)
  }
}

await Promise.all(Array.from({ length: 8 }, (_each, writer) => write(writer)))

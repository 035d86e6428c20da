/** Before anything is measured: does each do the job that its row says? */
import { requestBodies } from './bodies.ts'
import type { Running } from './subjects.ts'

interface Answered {
  seatbid: { bid: { price: number; nurl: string; adm: string }[] }[]
}

/** null, or what is wrong. */
export async function checked({ subject, port }: Running): Promise<string | null> {
  const [body] = requestBodies(1)
  const ask = (kind: string) =>
    fetch(`http://127.0.0.1:${port}/bid/bench?kind=${kind}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: body!,
    })
  const none = await ask('no-bid')
  if (none.status !== 204) return `a no-bid came as ${none.status}`
  for (const kind of ['bid', 'vast', 'bids-200']) {
    const answer = await ask(kind)
    if (answer.status !== 200) return `${kind} came as ${answer.status}`
    const text = await answer.text()
    const bids = (JSON.parse(text) as Answered).seatbid.flatMap((seat) => seat.bid)
    const rewritten = bids.every(
      ({ price, nurl, adm }) => price <= 2.4731 && !`${nurl}${adm}`.includes('${SVC_OPD_'),
    )
    if (subject.job === 'rewrites' && !rewritten) return `${kind} came without OPD`
    if (subject.job === 'passes' && !text.includes('"price":2.4731')) return `${kind} came changed`
  }
  return null
}

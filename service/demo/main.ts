/** Bid traffic and win notices against a running service, with a summary of the results every few seconds. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createNotices } from './notices.ts'
import { estimates } from './scrape.ts'
import type { DemoSupplier } from './supplier.ts'
import { type Answered, createTally, interval, type Tally } from './tally.ts'
import { sendTraffic } from './traffic.ts'

interface DemoOptions {
  /** Both listeners: `http://127.0.0.1:8080`, `http://127.0.0.1:8081`. */
  proxyUrl: string
  adminUrl: string
  /** The supplier of `/bid/demo`: its hidden market decides which bids win. */
  supplier: DemoSupplier
  signal: AbortSignal
  /** Receives the summary as whole lines. */
  out: { write(text: string): unknown }
  /** Integration id; default demo. */
  ssp?: string
  /** Bid requests a second; default 200. */
  rate?: number
  /** Milliseconds between summaries; default 5000. */
  every?: number
  /** Mean delay of a win notice in milliseconds; default 3000. */
  noticeDelay?: number
  seed?: number
}

/** Runs until `signal` aborts. Failures of the service are counted and printed, never thrown. */
export async function runDemo(options: DemoOptions): Promise<void> {
  const { proxyUrl, adminUrl, supplier, signal, out } = options
  const { ssp = 'demo', rate = 200, every = 5000, noticeDelay = 3000, seed = 1 } = options
  const tally = createTally(supplier)
  const notices = createNotices({ adminUrl, supplier: ssp, delay: noticeDelay, seed })
  const seen: Seen = { noBids: 0, failed: 0, at: performance.now(), bids: 0 }
  const traffic = sendTraffic({
    url: `${proxyUrl}/bid/${ssp}`,
    rate,
    publishers: supplier.publishers,
    signal,
    seed: seed + Date.now(),
    onAnswer(request, status, body) {
      if (status === 204) seen.noBids++
      if (status !== 200) {
        if (status !== 204) seen.failed++
        return
      }
      for (const { nurl, cleared } of tally.answer(request.publisher, JSON.parse(body) as Answered))
        notices.won(nurl, cleared)
    },
    onFailure: () => seen.failed++,
  })
  out.write(
    `${rate} bid requests/s, notices after ${noticeDelay / 1000} s on average, 3 % lost, 1 % twice\n`,
  )
  while (!signal.aborted) {
    // The sleep ends when the demo is aborted.
    await sleep(every, undefined, { signal }).catch(() => undefined)
    out.write(`${summary(tally, seen, performance.now())}\n`)
    const known = await estimates(adminUrl, ssp)
    if (known.length > 0) out.write(`  service: ${known.join(', ')}\n`)
  }
  await traffic
  await notices.close()
}

interface Seen {
  noBids: number
  failed: number
  at: number
  bids: number
}

const percent = (share: number) => `${(share * 100).toFixed(1)} %`

/** One line; `kept` and its 95 % interval compare with the same bids at their own prices. */
function summary({ counts, money }: Tally, seen: Seen, now: number): string {
  const perSecond = ((counts.bids - seen.bids) * 1000) / Math.max(1, now - seen.at)
  seen.at = now
  seen.bids = counts.bids
  const margin = money.revenue - money.cleared
  const [low, high] = interval(counts.keptWins, counts.winsUnchanged)
  const kept = counts.winsUnchanged === 0 ? 0 : counts.keptWins / counts.winsUnchanged
  return [
    `${Math.round(perSecond)} bids/s`,
    `${counts.bids} bids, ${counts.lowered} lowered, ${seen.noBids} no-bids${seen.failed > 0 ? `, ${seen.failed} failed` : ''}`,
    `${counts.wins} wins`,
    `margin ${margin.toFixed(2)} USD CPM (${percent(money.revenue === 0 ? 0 : margin / money.revenue)} of revenue)`,
    `uplift ${((1000 * margin) / Math.max(1, counts.bids)).toFixed(2)} per 1,000 bids`,
    `wins kept ${percent(kept)} (${percent(low)} to ${percent(high)})`,
  ].join(' | ')
}

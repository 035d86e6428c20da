/** Bid traffic and win notices against a running service, with its figures every few seconds. */
import { setTimeout as sleep } from 'node:timers/promises'
import { demoTraffic } from '../default-config.ts'
import {
  type BidResponse,
  type ConsoleFigures,
  createTally,
  type Failures,
  summary,
} from './figures.ts'
import { createNotices, sendTraffic } from './platform.ts'
import type { DemoSupplier } from './supplier.ts'

interface DemoOptions {
  /** Both listeners: `http://127.0.0.1:8080`, `http://127.0.0.1:8081`. */
  proxyUrl: string
  adminUrl: string
  /** The supplier of `/bid/demo`: its hidden market decides which bids win. */
  supplier: DemoSupplier
  signal: AbortSignal
  /** The figures of the console; null: they cannot be read now. */
  figures?: () => Promise<ConsoleFigures | null>
  /** Receives the figures as whole lines; without it nothing is printed. */
  out?: { write(text: string): unknown }
  /** Integration id; default demo. */
  ssp?: string
  rate?: number
  /** Milliseconds between figures; default 5000. */
  every?: number
  noticeDelay?: number
  changeNotice?: NonNullable<Parameters<typeof createNotices>[0]['change']>
}

/** Runs until `signal` aborts. Failures of the service are counted and printed, never thrown. */
export async function runDemo(options: DemoOptions): Promise<void> {
  const { proxyUrl, adminUrl, supplier, signal, out, changeNotice } = options
  const { figures = async () => null } = options
  const { ssp = 'demo', every = 5000 } = options
  const { rate = demoTraffic.rate, noticeDelay = demoTraffic.noticeDelay } = options
  const tally = createTally(supplier)
  const notices = createNotices({
    ...{ adminUrl, supplier: ssp, delay: noticeDelay },
    ...(changeNotice === undefined ? {} : { change: changeNotice }),
  })
  const failures: Failures = { noBids: 0, failed: 0 }
  const traffic = sendTraffic({
    url: `${proxyUrl}/bid/${ssp}`,
    rate,
    publishers: supplier.publishers,
    signal,
    onResponse(request, status, body) {
      if (status === 204) failures.noBids++
      if (status !== 200) {
        if (status !== 204) failures.failed++
        return
      }
      for (const { nurl, cleared } of tally.count(
        request.publisher,
        JSON.parse(body) as BidResponse,
      ))
        notices.reportWin(nurl, cleared)
    },
    onFailure: () => failures.failed++,
  })
  while (!signal.aborted) {
    // The sleep ends when the demo is aborted.
    await sleep(every, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) break
    if (out === undefined) continue
    const unreadable = (why: string) => [
      `the figures cannot be read: ${why} | ${failures.failed} requests failed`,
    ]
    const lines = await figures().then(
      (known) => (known === null ? unreadable('there are none') : summary(known, tally, failures)),
      (error: Error) => unreadable(error.message),
    )
    out.write(`\n${new Date().toLocaleTimeString()}  ${lines.join('\n')}\n`)
  }
  await traffic
  await notices.close()
}

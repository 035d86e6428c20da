/** What a load run says at its end. */

export interface Tally {
  statuses: Map<string, number>
  /** `x-bidweir-reason` of the requests that the service refused. */
  reasons: Map<string, number>
}

interface Target {
  url: string
  connections: number
  /** Requests a second; 0: as fast as it goes. */
  rate: number
  body: string
}

interface LoadResult {
  /** Seconds. */
  duration: number
  errors: number
  timeouts: number
  /** Milliseconds. */
  latency: { p50: number; p90: number; p97_5: number; p99: number; max: number }
  /** Bytes a second. */
  throughput: { average: number }
}

/** Of the rate; below it the rate was missed. */
const least = 0.97
const meanings: Readonly<Record<string, string>> = { '200': 'bids', '204': 'no-bids' }

type Figures = ReturnType<typeof figuresOf>

export function figuresOf(target: Target, result: LoadResult, { statuses, reasons }: Tally) {
  const { duration, errors, timeouts } = result
  const { p50, p90, p97_5, p99, max } = result.latency
  const responses = [...statuses.values()].reduce((sum, count) => sum + count, 0)
  const perSecond = responses / Math.max(duration, 1e-3)
  const failures: string[] = []
  if (responses === 0) failures.push(`no response from ${target.url}`)
  else if (perSecond < least * target.rate)
    failures.push(`rate missed: ${perSecond.toFixed(0)}/s of ${target.rate}/s`)
  return {
    ...{ target, duration, responses, perSecond, latencyMs: { p50, p90, p97_5, p99, max } },
    ...{ receivedBytesPerSecond: result.throughput.average, errors, timeouts, failures },
    statuses: Object.fromEntries([...statuses].sort()),
    reasons: Object.fromEntries([...reasons].sort()),
  }
}

export function summary(figures: Figures): string {
  const { target, responses, latencyMs: ms } = figures
  const share = (part: number) =>
    `${part} (${((100 * part) / Math.max(1, responses)).toFixed(1)} %)`
  const rate = target.rate > 0 ? `${target.rate}/s wanted` : 'as fast as it goes'
  const rows = [
    [
      'target',
      `${target.url}, ${target.connections} connections, ${rate}, ${target.body} requests`,
    ],
    [
      'responses',
      `${responses} in ${figures.duration.toFixed(1)} s, ${figures.perSecond.toFixed(0)}/s`,
    ],
    [
      'latency',
      `p50 ${ms.p50} ms, p90 ${ms.p90} ms, p97.5 ${ms.p97_5} ms, p99 ${ms.p99} ms, max ${ms.max} ms`,
    ],
    ['received', `${(figures.receivedBytesPerSecond / 1e6).toFixed(2)} MB/s`],
    ['errors', `${figures.errors} (${figures.timeouts} timeouts)`],
    ...Object.entries(figures.statuses).map(([code, count]) => [
      meanings[code] ?? code,
      share(count),
    ]),
    ...Object.entries(figures.reasons).map(([reason, count]) => [`  ${reason}`, share(count)]),
  ]
  return `${rows.map(([name, text]) => `${name!.padEnd(12)}${text}`).join('\n')}\n`
}

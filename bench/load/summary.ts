/** What a load run says at its end. */

export interface Tally {
  statuses: Map<string, number>
  /** `x-bidweir-reason` of the answers that the service refused. */
  reasons: Map<string, number>
}

interface LoadResult {
  /** Seconds. */
  duration: number
  errors: number
  timeouts: number
  requests: { average: number; total: number }
  /** Milliseconds. */
  latency: { p50: number; p90: number; p97_5: number; p99: number; max: number }
  /** Bytes a second. */
  throughput: { average: number }
}

const meanings: Readonly<Record<string, string>> = { '200': 'bids', '204': 'no-bids' }

const share = (part: number, of: number) =>
  `${part} (${((100 * part) / Math.max(1, of)).toFixed(1)} %)`

export function summary(
  given: { url: string; connections: number; rate: number; body: string },
  result: LoadResult,
  { statuses, reasons }: Tally,
): string {
  const { p50, p90, p97_5, p99, max } = result.latency
  const answered = [...statuses.values()].reduce((sum, count) => sum + count, 0)
  const rate = given.rate > 0 ? `${given.rate}/s wanted` : 'as fast as it goes'
  const rows = [
    ['target', `${given.url}, ${given.connections} connections, ${rate}, ${given.body} requests`],
    [
      'answers',
      `${answered} in ${result.duration.toFixed(1)} s, ${result.requests.average.toFixed(0)}/s`,
    ],
    ['latency', `p50 ${p50} ms, p90 ${p90} ms, p97.5 ${p97_5} ms, p99 ${p99} ms, max ${max} ms`],
    ['received', `${(result.throughput.average / 1e6).toFixed(2)} MB/s`],
    ['errors', `${result.errors} (${result.timeouts} timeouts)`],
    ...[...statuses]
      .sort()
      .map(([code, count]) => [meanings[code] ?? code, share(count, answered)]),
    ...[...reasons].sort().map(([reason, count]) => [`  ${reason}`, share(count, answered)]),
  ]
  return `${rows.map(([name, text]) => `${name!.padEnd(12)}${text}`).join('\n')}\n`
}

/** What it costs to find `tmax` in a request, before it is sent: by where the word is. */

import { findTmax } from '../../opd/openrtb/tmax.ts'
import type { Run } from '../harness/bench.ts'
import { cpuOf } from '../harness/process.ts'
import type { Block } from '../harness/report.ts'
import { inTurns, median } from '../harness/statistics.ts'
import { bidRequests } from '../harness/traffic.ts'

const [request] = bidRequests as [Buffer]
const atStart = request.toString('latin1')
const without = atStart.replace(/"tmax":\d+,/, '')

const texts: Readonly<Record<string, string>> = {
  'near the beginning': atStart,
  'at the end': without.replace(/\}$/, ',"tmax":120}'),
  absent: without,
  'at the end, behind slashes with escapes': without
    .replaceAll('/', '\\/')
    .replace(/\}$/, ',"tmax":120}'),
  'at the end, behind an escape of an ASCII character': without.replace(
    /\}$/,
    ',"a":"\\u0026","tmax":120}',
  ),
}

export async function tmaxCosts({ quick }: Pick<Run, 'quick'>): Promise<Block[]> {
  const samples = await inTurns(quick ? 2 : 15, Object.keys(texts), (name) => {
    const text = texts[name]!
    return { found: cpuOf(() => findTmax(text), 5000), parsed: cpuOf(() => JSON.parse(text), 500) }
  })
  const us = (values: readonly number[]) => median(values).toFixed(2)
  return [
    `CPU microseconds of a dense request of ${request.length} bytes, which is text.`,
    {
      head: ['tmax is', 'bidweir', 'JSON.parse'],
      rows: [...samples].map(([name, all]) => [
        name,
        us(all.map(({ found }) => found)),
        us(all.map(({ parsed }) => parsed)),
      ]),
    },
  ]
}

/** What is measured, as data: a stage is a table of the report. */
import type { Job } from './source.ts'
import { supplierIds } from './subjects.ts'

export interface Case extends Pick<Job, 'paths' | 'connections' | 'rate'> {
  label: string
}

export interface Stage {
  key: string
  title: string
  note?: string
  /** Names of subjects; null: all. */
  subjects: string[] | null
  cases: Case[]
  rounds: number
  /** Milliseconds of one window. */
  measure: number
  /** `full`: everything about one case. Else a row per case, a column per subject. */
  shows: 'full' | 'perRequest' | 'latency'
}

const paths = (kind: string | null, ids: readonly string[] = ['bench']) =>
  ids.map((id) => `/bid/${id}${kind === null ? '' : `?kind=${kind}`}`)
const at = (label: string, more: Partial<Case> = {}): Case => ({
  ...{ label, paths: paths(null), connections: 64, rate: 0 },
  ...more,
})

/** `scale` 1 is the full run; smaller ones shorten every window. */
export function plan(quick: boolean): Stage[] {
  const rounds = quick ? 2 : 5
  const measure = quick ? 600 : 3000
  const short = quick ? 300 : 1500
  return [
    {
      ...{ key: 'mix', title: 'The mix, closed loop, 64 connections', subjects: null },
      ...{ cases: [at('mix')], rounds, measure, shows: 'full' },
    },
    {
      ...{ key: 'kinds', title: 'Each answer alone: CPU microseconds per request', subjects: null },
      note: 'gzip is the 3 KB bid compressed: bidweir alone decodes, rewrites and encodes it again, everyone else hands it on as it is.',
      cases: ['no-bid', 'bid', 'vast', 'gzip'].map((kind) => at(kind, { paths: paths(kind) })),
      ...{ rounds: quick ? 1 : 2, measure: short, shows: 'perRequest' },
    },
    {
      ...{
        key: 'open',
        title: 'The mix at a fixed rate: latency p50 / p99, milliseconds',
        subjects: null,
      },
      cases: (quick ? [3000] : [1000, 3000]).map((rate) => at(`${rate}/s`, { rate })),
      ...{ rounds: quick ? 1 : 3, measure: short, shows: 'latency' },
    },
    {
      ...{ key: 'connections', title: 'Connections: CPU microseconds per request, the mix' },
      subjects: ['bidweir', 'nginx', 'HAProxy', 'http-proxy'],
      cases: (quick ? [1, 1024] : [1, 16, 256, 1024, 4096]).map((connections) =>
        at(String(connections), { connections }),
      ),
      ...{ rounds: quick ? 1 : 2, measure: short, shows: 'perRequest' },
    },
    {
      ...{ key: 'suppliers', title: 'Suppliers in use: CPU microseconds per request, the mix' },
      subjects: ['bidweir'],
      cases: [1, 20, 200].map((count) =>
        at(String(count), { paths: paths(null, supplierIds.slice(0, count)) }),
      ),
      ...{ rounds: quick ? 1 : 3, measure: short, shows: 'perRequest' },
    },
    {
      ...{ key: 'bids', title: 'Bids in an answer: CPU microseconds per request' },
      subjects: ['bidweir', 'nginx', 'nginx + Lua', 'http-proxy + JSON'],
      cases: [1, 10, 50, 200].map((count) => at(String(count), { paths: paths(`bids-${count}`) })),
      ...{ rounds: quick ? 1 : 2, measure: short, shows: 'perRequest' },
    },
  ]
}

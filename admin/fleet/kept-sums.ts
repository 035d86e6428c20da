/**
 * Bids and wins of optimized bids and of the holdout over the last days, of all nodes, from the store: kept wins and spend
 * survive a restart. Each node adds what it has counted since its last addition.
 */

import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { createSlices } from '../../opd/base/slices.ts'
import type { ArmSums, EngineStats } from '../../opd/pricing/stats.ts'
import type { Mode } from '../../opd/shared/arms.ts'
import { type ArmPair, addedArms, armPairOf, comparedArms } from '../metrics/comparison.ts'
import { day } from '../store/hour.ts'
import type { Store } from '../store/index.ts'
import { writeSums } from '../store/sums.ts'

/** Days of UTC that are compared, today included. */
const comparedDays = 7

export interface KeptSums {
  /** The sums of a supplier; null without bids. While the store is lost, the sums that were read last. */
  read(): Promise<(supplier: string, mode: Mode) => ArmPair | null>
  /** Adds to the store what this node has counted since the last addition. */
  flush(): Promise<void>
}

/** Milliseconds for which sums that were read are used again; other nodes add theirs every ten seconds. */
const readInterval = 5000
/** Rows of one statement, 12 columns each. */
const sliceRows = 100
const fields = {
  bids: 'bids',
  wins: 'wins',
  in: 'in',
  cleared: 'cleared',
  margin: 'margin',
  marginSquares: 'margin_squares',
  spend: 'spend',
  spendSquares: 'spend_squares',
} as const satisfies Record<keyof ArmSums, string>
const names = Object.keys(fields) as (keyof ArmSums)[]
const target = {
  table: 'arm_sums',
  key: ['day', 'supplier', 'mode', 'arm'],
  sums: Object.values(fields),
} as const

type Sums = Map<string, ArmSums>
const keyOf = (supplier: string, mode: string, arm: string) => `${supplier}\0${mode}\0${arm}`
const sumsOf = (of: (name: keyof ArmSums) => number) =>
  Object.fromEntries(names.map((name) => [name, of(name)])) as Record<keyof ArmSums, number>
const nothing = sumsOf(() => 0)
const minus = (one: ArmSums, other: ArmSums) => sumsOf((name) => one[name] - other[name])

/** What this node has counted beyond `before`, in slices of the event loop. */
async function countedSince({ suppliers }: EngineStats, before: Sums): Promise<Sums> {
  const slices = createSlices()
  const fresh: Sums = new Map()
  for (const [supplier, { modes }] of suppliers) {
    for (const [mode, stats] of Object.entries(modes)) {
      const pair = armPairOf(stats)
      for (const arm of comparedArms) {
        const key = keyOf(supplier, mode, arm)
        const known = before.get(key) ?? nothing
        if (names.some((name) => pair[arm][name] !== known[name]))
          fresh.set(key, minus(pair[arm], known))
      }
    }
    await slices.next()
  }
  return fresh
}

interface KeptSumsDeps {
  store: Pick<Store, 'db'>
  stats: EngineStats
  now: () => number
  log: Log
}

export function createKeptSums({ store, stats, now, log }: KeptSumsDeps): KeptSums {
  const { db } = store
  const dayOf = (at: number) => at - (at % day)
  let stored: Sums = new Map()
  /** What this node has counted and added to the store. */
  const added: Sums = new Map()
  let readAt = Number.NEGATIVE_INFINITY

  async function write(): Promise<void> {
    const fresh = [...(await countedSince(stats, added))]
    const today = dayOf(now())
    for (let from = 0; from < fresh.length; from += sliceRows) {
      const slice = fresh.slice(from, from + sliceRows)
      const rows = slice.map(([key, sums]) => {
        const [supplier, mode, arm] = key.split('\0')
        const values = names.map((name) => [fields[name], sums[name]])
        return { day: today, supplier, mode, arm, ...Object.fromEntries(values) }
      })
      await writeSums(db, 'add', target, rows)
      for (const [key, sums] of slice)
        for (const known of [added, stored])
          known.set(key, addedArms(known.get(key) ?? nothing, sums))
    }
    await db
      .deleteFrom('arm_sums')
      .where('day', '<=', today - comparedDays * day)
      .execute()
  }

  async function readStored(): Promise<void> {
    if (now() - readAt < readInterval) return
    const rows = await db
      .selectFrom('arm_sums')
      .select(['supplier', 'mode', 'arm'])
      .select(({ fn }) => Object.values(fields).map((name) => fn.sum<number>(name).as(name)))
      .where('day', '>', dayOf(now()) - comparedDays * day)
      .groupBy(['supplier', 'mode', 'arm'])
      .execute()
    stored = new Map(
      rows.map((row) => [
        keyOf(row.supplier, row.mode, row.arm),
        sumsOf((name) => Number(row[fields[name]])),
      ]),
    )
    readAt = now()
  }

  /** Reading and writing take turns, so that no bid is counted twice or left out for a moment. */
  let last: Promise<unknown> = Promise.resolve()
  function turn(work: () => Promise<void>, what: string): Promise<void> {
    const done = last.then(work).catch((error: Error) => {
      log.warn({ err: error.message }, `the sums of kept wins could not be ${what}`)
    })
    last = done
    return done
  }
  const reading = oneAtATime(async (): Promise<[stored: Sums, fresh: Sums]> => {
    let both: [Sums, Sums] = [stored, new Map()]
    await turn(readStored, 'read')
    await turn(async () => {
      both = [new Map(stored), await countedSince(stats, added)]
    }, 'added up')
    return both
  })

  return {
    flush: oneAtATime(() => turn(write, 'written')),
    async read() {
      const [stored, fresh] = await reading()
      return (supplier, mode) => {
        const sumsOfArm = (arm: keyof ArmPair) => {
          const key = keyOf(supplier, mode, arm)
          return addedArms(stored.get(key) ?? nothing, fresh.get(key) ?? nothing)
        }
        const [optimised, holdout] = [sumsOfArm('optimised'), sumsOfArm('holdout')]
        return optimised.bids + holdout.bids === 0 ? null : { optimised, holdout }
      }
    },
  }
}
